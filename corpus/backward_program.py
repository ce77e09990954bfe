"""A program for `backward`: the graph that AOTAutograd makes of a reference's gradients, as Python.

It runs in a sandbox, reads the reference and its sizes as JSON from standard input and prints the answer. Tensors are
fake: nothing is computed. What the forward pass would have saved is recomputed.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from types import ModuleType
from typing import Any


def main() -> None:
    """Print the gradients' forward method, and the gradients that it takes."""
    task = json.load(sys.stdin)
    module = ModuleType("reference")
    exec(compile(task["source"], "reference.py", "exec"), vars(module))
    vars(module).update(task["sizes"])
    try:
        answer = traced(module)
    except NotImplementedError as error:
        answer = {"refused": str(error)}
    sys.stdout.write(f"\n{json.dumps(answer)}\n")


def traced(module: ModuleType) -> dict[str, Any]:
    """Return the body of a forward method, its arguments, and the shapes of the output gradients among them."""
    import torch
    from torch._functorch.aot_autograd import aot_export_joint_simple
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.graph import CodeGen

    with FakeTensorMode():
        model = module.Model(*module.get_init_inputs())
        inputs = list(module.get_inputs())
        if not all(isinstance(item, torch.Tensor) for item in inputs):
            raise NotImplementedError("it takes arguments that are not tensors")
        weights = {**dict(model.named_parameters()), **dict(model.named_buffers())}
        trained = dict(model.named_parameters())
        if len(trained) < len(dict(model.named_parameters(remove_duplicate=False))):
            raise NotImplementedError("it has a parameter under two names")
        differentiable = [item.is_floating_point() for item in inputs] + [name in trained for name in weights]
        given = [*inputs, *weights.values()]
        flat = [item.detach().requires_grad_(wanted) for item, wanted in zip(given, differentiable, strict=True)]

        def forward(*tensors: Any) -> tuple[Any, ...]:
            named = dict(zip(weights, tensors[len(inputs) :], strict=True))
            result = torch.func.functional_call(model, named, tuple(tensors[: len(inputs)]))
            return tuple(result) if isinstance(result, tuple | list) else (result,)

        outputs = forward(*flat)
        if not all(isinstance(item, torch.Tensor) and item.requires_grad for item in outputs):
            raise NotImplementedError("it has results without gradients")
        graph = aot_export_joint_simple(forward, flat, trace_joint=True).graph
    (last,) = (node for node in graph.nodes if node.op == "output")
    every = last.args[0][len(outputs) :]
    if any(item is None for item, wanted in zip(every, differentiable, strict=True) if wanted):
        raise NotImplementedError("an input or a parameter has no gradient")  # which stand in order, without gaps
    gradients = [item for item in every if item is not None]
    last.args = (tuple(gradients),)
    graph.eliminate_dead_code()
    for node in graph.nodes:
        if torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
            raise NotImplementedError("it draws random numbers")
        if node.op == "get_attr":
            raise NotImplementedError("it has tensors that are neither parameters nor buffers")
    graph.set_codegen(CodeGen())
    _, *lines = graph.python_code("self").src.strip().splitlines()
    names = [item.name for item in list(inspect.signature(model.forward).parameters.values())][: len(inputs)]
    places = [*names, *(f"self.{name}" for name in weights)]
    holders = [node.name for node in graph.nodes if node.op == "placeholder"]
    asked = {str(node) for item in graph.nodes for node in item.all_input_nodes}
    taken = [f"output_gradient_{number}" for number in range(len(outputs))]
    pairs = zip(holders, [*places, *taken], strict=True)
    return {
        "arguments": [*names, *taken],
        "body": [
            *(f"{name} = {place}" for name, place in pairs if name in asked),
            *(re.sub(r";  [\w = ]+None$", "", line.strip()) for line in lines),
        ],
        "gradients": [[list(item.shape), str(item.dtype)] for item in outputs],
    }


if __name__ == "__main__":
    main()
