"""A program for `description`: arguments, results and needs of an operator with its reference and kernels.

It runs in a sandbox, reads its task as JSON from standard input and prints the answer. Tensors are fake: nothing is
computed, except where a file cannot run without values.
"""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any


def main() -> None:
    """Describe every kernel of the task."""
    task = json.load(sys.stdin)
    import torch

    namespace, _, name = task["name"].partition("::")
    answer = {
        "triton_op": hasattr(torch.library, "triton_op"),
        "torch": torch.__version__,
        "taken": hasattr(getattr(torch.ops, namespace), name),
        "kernels": [described(number, item) for number, item in enumerate(task["kernels"])],
    }
    sys.stdout.write(f"\n{json.dumps(answer)}\n")


def described(number: int, item: dict[str, Any]) -> dict[str, Any]:
    """Return the description of one kernel and its reference at its sizes."""
    import torch

    problem = loaded(f"reference_{number}", item["reference"], item["sizes"])
    found = traced(problem)
    free = item["free"]
    if free is not None:
        # Twice the size shows which dimensions are multiples of it.
        value = getattr(problem, free)
        double = loaded(f"reference_{number}_twice", item["reference"], {**item["sizes"], free: 2 * value})
        found["value"], found["twice"] = value, traced(double)
    with torch.device("meta"):
        reference = problem.Model(*problem.get_init_inputs())
    found["reference_has_own_tensors"] = has_own_tensors(reference)
    kernel = loaded(f"kernel_{number}", item["kernel"], {}).ModelNew
    made = kernel(*problem.get_init_inputs())
    known = {*dict(made.named_parameters(remove_duplicate=False)), *dict(made.named_buffers())}
    required = [name for name, _ in reference.named_parameters(remove_duplicate=False)]
    hooks = any(module._load_state_dict_post_hooks or loads_itself(module) for module in made.modules())
    found["packs"] = hasattr(kernel, "prepare") or hooks
    found["lacks"] = [name for name in required if name not in known]
    found["kernel_has_own_tensors"] = bool(known - {*found["weights"]}) or has_own_tensors(made)
    return found


def traced(problem: ModuleType) -> dict[str, Any]:
    """Return arguments, weights and outputs of the reference."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    with contextlib.suppress(Exception), FakeTensorMode():  # some files read values
        return called(problem)
    return called(problem)


def called(problem: ModuleType) -> dict[str, Any]:
    """Call the reference."""
    import torch

    given = problem.get_init_inputs()
    model = problem.Model(*given)
    inputs = list(problem.get_inputs())
    weights = {**dict(model.named_parameters(remove_duplicate=False)), **dict(model.named_buffers())}
    tensors = {f"argument {place}": item for place, item in enumerate(inputs) if isinstance(item, torch.Tensor)}
    tensors |= weights
    versions = {name: item._version for name, item in tensors.items()}
    with torch.no_grad():
        result = model(*inputs)
    outputs = list(result) if isinstance(result, tuple | list) else [result]
    return {
        "names": names_of(problem.Model, len(inputs)),
        "inputs": [plain(item) for item in inputs],
        "weights": {name: plain(item) for name, item in weights.items()},
        "outputs": [plain(item) for item in outputs],
        "returns_tuple": isinstance(result, tuple | list),
        "written": [name for name, item in tensors.items() if item._version != versions[name]],
        "constructor": repr(given),
    }


def names_of(model: Any, count: int) -> list[str]:
    """Return the names of forward's arguments; x0, x1, ... for unnamed ones."""
    parameters = list(inspect.signature(model.forward).parameters.values())[1:]
    plain_kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [item.name for item in parameters if item.kind in plain_kinds]
    return names[:count] if len(names) >= count else [f"x{place}" for place in range(count)]


def plain(item: Any) -> Any:
    """Return a tensor as [dtype, sizes, order], a number unchanged, and the type's name for anything else.

    The order is that of the dimensions in memory, the outermost first; None for a tensor that is not dense.
    """
    import torch

    if isinstance(item, torch.Tensor):
        order = list(range(item.dim()))
        if not item.is_contiguous():
            order.sort(key=lambda dimension: (-item.stride(dimension), dimension))
        dense = item.permute(order).is_contiguous()
        return [str(item.dtype).removeprefix("torch."), list(map(int, item.shape)), order if dense else None]
    return item if isinstance(item, bool | int | float) else {"type": type(item).__name__}


def has_own_tensors(module: Any) -> bool:
    """Return whether a module has tensors that are neither parameters nor buffers."""
    import torch

    return any(isinstance(value, torch.Tensor) for part in module.modules() for value in vars(part).values())


def loads_itself(module: Any) -> bool:
    """Return whether a module has its own way of loading weights; those of torch load them as they are."""
    method = type(module)._load_from_state_dict
    return not method.__module__.startswith("torch.")


def loaded(name: str, source: str, sizes: dict[str, Any]) -> ModuleType:
    """Execute a text as a module with these constants set; from a file, since Triton reads it again."""
    path = Path(f"{name}.py").resolve()
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    for constant, value in sizes.items():
        setattr(module, constant, tuple(value) if isinstance(value, list) else value)
    return module


if __name__ == "__main__":
    main()
