"""Checks the first kernels that structures make of problems: prints a JSON object by problem.

    check_structures.py FOLDER PROBLEM.py...

Each file of a problem becomes a kernel file in FOLDER, of which each launch is compiled for sm_90, without a GPU; where
programs share results, one in which none does is checked, too. With TRITON_INTERPRET=1 the files that a call before has
made run in Triton's interpreter and are compared with the reference in fp64. A problem with `FREE` has a size that is
free within a range: it is checked at several. A process of its own, since Triton reads its setting when it is imported.
"""

from __future__ import annotations

import copy
import importlib.util
import json
import os
import re
import sys
import types
from pathlib import Path
from typing import Any

import torch
import triton
from kernelwright.core import TorchProblem
from kernelwright.core.dynamic_size import FreeSize
from kernelwright.evaluators.languages.triton_interpreter import fix_interpreter
from triton._utils import canonicalize_dtype
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime.jit import JITFunction

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"


def loaded(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def double(item: Any) -> Any:
    return item.double() if isinstance(item, torch.Tensor) and item.is_floating_point() else item


def tensors(result: Any) -> list[Any]:
    return list(result) if isinstance(result, tuple | list) else [result]


def error(found: Any, truth: Any) -> float:
    """The largest error, relative to the largest element."""
    if found.numel() == 0:
        return 0.0
    left, right = found.double(), truth.double()
    same = (left == right) | (left.isnan() & right.isnan())
    distance = torch.where(same, 0.0, (left - right).abs())
    finite = right[right.isfinite()].abs()
    return float(distance.nan_to_num(float("inf")).max() / max(1e-3, float(finite.max()) if finite.numel() else 1.0))


def interpreted(new: Any, model: Any, inputs: list[Any]) -> dict[str, Any]:
    fix_interpreter()
    with torch.no_grad():
        expected = tensors(model(*inputs))
        truth = expected
        if expected[0].is_floating_point():
            torch.set_default_dtype(torch.float64)
            truth = tensors(copy.deepcopy(model).double()(*map(double, inputs)))
            torch.set_default_dtype(torch.float32)
        found = tensors(new(*inputs))
    forms = [(tuple(item.shape), item.dtype) for item in found] == [
        (tuple(item.shape), item.dtype) for item in expected
    ]
    pairs = list(zip(found, expected, truth, strict=True))
    return {
        "form": forms,
        "error": max(error(f, t) for f, _, t in pairs),
        "eager": max(error(e, t) for _, e, t in pairs),
    }


def compiled(new: Any, inputs: list[Any]) -> dict[str, Any]:
    shared: dict[str, int] = {}

    def run(self: Any, *args: Any, grid: Any, warmup: bool, **options: Any) -> None:
        given = dict(zip(self.arg_names, args, strict=False))
        given |= {name: options.pop(name) for name in list(options) if name in self.arg_names}
        signature, constants, aligned = {}, {}, {}
        for place, parameter in enumerate(self.params):
            value = given[parameter.name]
            if isinstance(value, int) and value != 1 and not parameter.is_constexpr:
                signature[parameter.name] = "i32"
            elif parameter.is_constexpr or isinstance(value, int):  # as Triton takes an argument of 1
                signature[parameter.name], constants[parameter.name] = "constexpr", value
            else:
                signature[parameter.name] = "*" + canonicalize_dtype(value.dtype)
                aligned[place,] = [["tt.divisibility", 16]]
        launch = {name: options[name] for name in ("num_warps", "num_stages") if name in options}
        source = ASTSource(fn=self, signature=signature, constexprs=constants, attrs=aligned)
        done = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=launch)
        shared[self.fn.__name__] = int(done.metadata.shared)

    JITFunction.run = run
    with torch.no_grad():
        new(*inputs)
    return {"shared": shared}


def made(folder: Path, path: Path, problem: Any, model: Any, inputs: list[Any], free: FreeSize | None) -> None:
    """Make the kernel of a problem, and write it and its variants."""
    # The interpreter's process needs none of these, which take seconds to import.
    from kernelwright.agent.first_kernels.from_structures import structured_kernel
    from kernelwright.core.operator_graph import OperatorGraph
    from kernelwright.evaluators.reference.free_sizes import dynamic_shapes
    from kernelwright.evaluators.reference.operator_graphs import operator_graph

    shapes = None if free is None else dynamic_shapes(types.SimpleNamespace(module=problem), free)
    graph = OperatorGraph.model_validate_json(json.dumps(operator_graph(model, inputs, free, shapes)))
    kernel = structured_kernel(
        TorchProblem(id=f"level1/{path.stem}", name=path.stem, source=path.read_text(), path=str(path)), graph
    )
    (folder / f"{path.stem}_kernel.py").write_text(kernel.source)
    alone = re.sub(r"^(SPLITS_\d+) = \d+$", r"\1 = 1", kernel.source, flags=re.MULTILINE)
    for number, source in enumerate(dict.fromkeys([kernel.source, alone])):
        (folder / f"{path.stem}_{number}.py").write_text(source)


def checked(folder: Path, path: Path) -> dict[str, Any]:
    problem = loaded(path)
    torch.manual_seed(0)
    model, inputs = problem.Model(*problem.get_init_inputs()), problem.get_inputs()
    free = FreeSize(*problem.FREE) if hasattr(problem, "FREE") else None
    if not INTERPRETED:
        made(folder, path, problem, model, inputs, free)
    found: dict[str, Any] = {}
    for file in (folder / f"{path.stem}_{number}.py" for number in range(2)):
        if not file.exists():  # the kernel has no variant
            continue
        new = loaded(file).ModelNew(*problem.get_init_inputs())
        new.load_state_dict(model.state_dict())
        for value in sorted({free.low, free.low + 1, free.high // 2 | 1, free.high}) if free else [None]:
            if free is not None:
                setattr(problem, free.name, value)
                inputs = problem.get_inputs()
            found = worse(found, interpreted(new, model, inputs) if INTERPRETED else compiled(new, inputs))
    return found


def worse(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """What holds for two configurations of a kernel."""
    if not first:
        return second
    if not INTERPRETED:
        names = first["shared"] | second["shared"]
        return {"shared": {name: max(item["shared"].get(name, 0) for item in (first, second)) for name in names}}
    return {**second, "form": first["form"] and second["form"], "error": max(first["error"], second["error"])}


folder, *paths = map(Path, sys.argv[1:])
json.dump({path.stem: checked(folder, path) for path in paths}, sys.stdout, indent=1)
