"""A Definition and its Workloads as a problem: `run` becomes `Model.forward`, a Workload the sizes."""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from ...core import DEFAULT_WORKLOAD, ProblemError, Tolerance, TorchProblem
from ...core.syntax_tree import syntax_tree
from .dataset import TraceDataset
from .definition import Definition
from .schema import RandomInput, SafetensorsInput, ScalarInput, Workload
from .sol_execbench import CustomInput, ExprAxis

SCALARS, TENSORS = "SCALARS", "TENSORS"
"""The sizes that name a Workload's numbers, and the files and keys of its recorded tensors."""
_OWN = ("Model", SCALARS, TENSORS, "WORKLOADS", "MATCHED", "recorded", "drawn")
_FLOAT4 = "float4"

_MODEL = '''

class Model(nn.Module):
    """{description}"""

    reference = staticmethod(run)

    def forward(self, {inputs}):
        return self.reference({inputs})


del run
'''
_RECORDED = """

def recorded(name):
    path, key = TENSORS[name]
    with safe_open(Path(__file__).parent / path.lstrip("/"), "pt") as file:
        return file.get_tensor(key)
"""
_DRAWN = """

def drawn(shape, dtype):
    if dtype.is_floating_point:
        wide = torch.randn(shape)
        return (wide.clamp(-2.0, 2.0) if dtype.itemsize == 1 else wide).to(dtype)
    if dtype == torch.bool:
        return torch.randint(0, 2, shape, dtype=dtype)
    bound = 128 if dtype == torch.int8 else 1024
    return torch.randint(-bound, bound, shape, dtype=dtype)
"""
"""The distributions from which flashinfer-bench draws random inputs."""
_INPUTS = """

def get_inputs():
{made}


def get_init_inputs():
    return []
"""


@dataclass(frozen=True)
class RecordedProblem(TorchProblem):
    """A Definition; its workloads are the recorded ones, by their uuid, and the default is the largest."""

    root: Path = Path()
    """Folder to which the paths of recorded tensors are relative."""
    largest: str = DEFAULT_WORKLOAD
    recorded: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The sizes of the Workloads, the smallest first. Not in the source: there may be hundreds."""
    exactness: Mapping[str, Mapping[str, Tolerance]] = field(default_factory=dict)
    """Tolerances by dtype of the Workloads that have their own."""

    @property
    def has_free_sizes(self) -> bool:
        """Never."""
        return False

    @property
    def workloads(self) -> Mapping[str, Mapping[str, Any]]:
        """The recorded Workloads, and 'default'."""
        return {DEFAULT_WORKLOAD: {}, **self.recorded}

    def at(self, workload: str) -> Self:
        """Return the problem at a Workload, by its uuid, or at other sizes; 'default' is the largest Workload."""
        return super().at(self.largest if workload == DEFAULT_WORKLOAD else workload)

    def resized(self, workload: str, sizes: Mapping[str, Any]) -> Self:
        """Return the problem at these sizes, with the tolerances of the Workload."""
        own = self.exactness.get(workload)
        resized = super().resized(workload, sizes)
        return replace(resized, tolerances=own) if own is not None else resized

    def files_at(self, sizes: Mapping[str, Any]) -> Mapping[str, Path]:
        """The recorded tensors' files."""
        tensors = {**self.constants, **sizes}[TENSORS]
        return {path.lstrip("/"): self.root / path for path, _ in tensors.values()}


def recorded_problem(dataset: TraceDataset, name: str) -> RecordedProblem:
    """Return a Definition of a dataset as a problem; raises `ProblemError` for one without a Workload, or broken."""
    definition, workloads = dataset.definitions[name], dataset.workloads(name)
    if not workloads:
        raise ProblemError(f"Definition {name} of {dataset.root} has no Workloads; record one in workloads/")
    _check(definition)
    ordered = sorted(workloads, key=lambda workload: elements(definition, workload))
    return RecordedProblem(
        id=name,
        name=name,
        source=_source(definition, ordered),
        root=dataset.root_of(name),
        largest=ordered[-1].uuid,
        recorded={item.uuid: _sizes(definition, item) for item in ordered},
        exactness={
            workload.uuid: workload.tolerance.tolerances() for workload in workloads if workload.tolerance is not None
        },
    )


def elements(definition: Definition, workload: Workload) -> int:
    """Return how many elements inputs and outputs have: the size of a Workload."""
    extents = definition.extents(workload.axes)
    tensors = (*definition.inputs.values(), *definition.outputs.values())
    return sum(math.prod(definition.shape(tensor, extents)) for tensor in tensors)


def _check(definition: Definition) -> None:
    """Raise `ProblemError` for a Definition that cannot become a module."""
    where = f"Definition {definition.name}"
    for name in (*definition.axes, *definition.inputs):
        if not name.isidentifier():
            raise ProblemError(f"{where}: {name!r} is not a Python name; rename it")
    for name, tensor in (*definition.inputs.items(), *definition.outputs.items()):
        if tensor.dtype.startswith(_FLOAT4):
            raise ProblemError(f"{where}: {name} has the dtype {tensor.dtype}, which is not supported")
    for name, tensor in definition.outputs.items():
        if tensor.shape is None:
            raise ProblemError(f"{where}: the output {name} is a number; return a tensor of the shape []")
    taken = _assigned(definition.reference)
    for name in (*definition.var_axes, *_OWN):
        if name in taken:
            raise ProblemError(f"{where}: its reference assigns {name}, which is needed here; rename it there")


def _assigned(source: str) -> set[str]:
    """Return the names that a module binds at its top level."""
    found: set[str] = set()
    for node in syntax_tree(source).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        else:
            found |= {
                item.id for item in ast.walk(node) if isinstance(item, ast.Name) and isinstance(item.ctx, ast.Store)
            }
    return found


def _source(definition: Definition, ordered: list[Workload]) -> str:
    """Return the reference, with the axes at the largest Workload and the inputs behind it."""
    sizes = _sizes(definition, ordered[-1])
    taken, axes = _assigned(definition.reference), definition.extents(ordered[-1].axes)
    made = _made(definition, ordered)
    lines = [definition.reference.rstrip(), "", "", "from pathlib import Path", "", "import torch"]
    lines += ["from safetensors import safe_open", "from torch import nn", ""]
    if definition.custom_inputs_entrypoint is not None:
        lines += [f"make_inputs = {definition.custom_inputs_entrypoint}", ""]
    # The reference may have a constant of a const axis's name.
    lines += [f"{name} = {axes[name]}" for name in _plain(definition) if name not in taken]
    lines += [f"{name} = {sizes[name]!r}" for name in (SCALARS, TENSORS)]
    text = " ".join((definition.description or definition.name).split())
    model = _MODEL.format(description=text.replace("\\", "/").replace('"', "'"), inputs=", ".join(definition.inputs))
    helpers = (_RECORDED if "recorded(" in made else "") + (_DRAWN if "drawn(" in made else "")
    return "\n".join(lines) + "\n" + model + helpers + _INPUTS.format(made=made)


def _plain(definition: Definition) -> list[str]:
    return [name for name, axis in definition.axes.items() if not isinstance(axis, ExprAxis)]


def _sizes(definition: Definition, workload: Workload) -> dict[str, Any]:
    """Return a Workload as the constants that it sets."""
    given = workload.inputs.items()
    return {
        **{name: workload.axes[name] for name in definition.var_axes},
        SCALARS: {name: source.value for name, source in given if isinstance(source, ScalarInput)},
        TENSORS: {
            name: (source.path, source.tensor_key) for name, source in given if isinstance(source, SafetensorsInput)
        },
    }


def _made(definition: Definition, workloads: list[Workload]) -> str:
    """Return the body of `get_inputs`."""
    if custom := [isinstance(value, CustomInput) for workload in workloads for value in workload.inputs.values()]:
        if all(custom):
            axes = "".join(f"{name!r}: {_extent(definition, name)}, " for name in definition.axes)
            names = ", ".join(map(repr, definition.inputs))
            return (
                f"    made = make_inputs({{{axes}**SCALARS}}, torch.get_default_device())\n"
                f"    return [made[name] for name in ({names},)]"
            )
        if any(custom):
            raise ProblemError(
                f"Definition {definition.name}: only some of its Workloads are custom; make all of them so"
            )
    rows = ["    return ["]
    for name, tensor in definition.inputs.items():
        kinds = {type(workload.inputs[name]) for workload in workloads}
        shape = "".join(f"{_extent(definition, axis)}, " for axis in tensor.shape or ())
        draw = (
            f"drawn(({shape.rstrip() if len(tensor.shape or ()) == 1 else shape.rstrip(', ')}), torch.{tensor.dtype})"
        )
        draw += ".item()" if tensor.shape is None else ""
        known, place = (f"SCALARS[{name!r}]", SCALARS) if tensor.shape is None else (f"recorded({name!r})", TENSORS)
        if kinds == {RandomInput}:
            rows.append(f"        {draw},")
        elif RandomInput not in kinds:
            rows.append(f"        {known},")
        else:
            rows.append(f"        {known} if {name!r} in {place} else {draw},")
    return "\n".join([*rows, "    ]"])


def _extent(definition: Definition, axis: str) -> str:
    """Return an axis in the generated source: its name, or its expression."""
    known = definition.axes.get(axis)
    return f"int({known.expression})" if isinstance(known, ExprAxis) else axis
