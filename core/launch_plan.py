"""One call of a kernel's `forward` as data: kernel launches and allowed torch operators over numbered tensors.

A plan is recorded in the process that runs the candidate's Python, and executed in one that never loads it. It holds
no values of inputs or weights, so it works on any.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

_IDENTIFIER = r"^[^\W\d]\w*$"
"""Pattern of function names, which come from a candidate's process and become file names."""
_SIZES = (("num_warps", "warps"), ("shared", "B shared"))
"""Settings of a launch that the plan's text shows."""


class _PlanPart(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


_MOST = 1 << 48
"""Maximum number of elements of a tensor, more than any memory holds."""
_Elements = Annotated[int, Field(ge=0, le=_MOST)]


class TensorLayout(_PlanPart):
    """Shape, strides and dtype of a tensor; strides and offset count elements."""

    shape: tuple[_Elements, ...]
    strides: tuple[_Elements, ...]
    dtype: str = Field(pattern=r"^[a-z]\w{0,30}$")
    offset: _Elements = 0

    @field_validator("shape")
    @classmethod
    def _fits_a_memory(cls, shape: tuple[int, ...]) -> tuple[int, ...]:
        if math.prod(shape) > _MOST:
            raise ValueError(f"a tensor of {len(shape)} dimensions that no memory holds")
        return shape

    @property
    def elements(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        """Size of the elements in bytes, by the bits in the dtype's name ('float8_e4m3fn'), otherwise one byte each."""
        bits = re.search(r"\d+", self.dtype)
        return self.elements * int(bits[0]) // 8 if bits else self.elements


class KernelCode(_PlanPart):
    """One compiled kernel: its text, and what a launch needs besides arguments."""

    name: str = Field(pattern=_IDENTIFIER)
    """Name of the function in the kernel language."""
    kind: Literal["c", "ptx", "amdgcn", "tir"]
    """Form of the text: PTX, AMD's assembly, TileLang's lowered IR as JSON, or C generated from it. What executes the
    plan compiles it. A candidate's process never records C, since that could be anything."""
    text: str
    entry: str = Field(pattern=_IDENTIFIER)
    parameters: tuple[str, ...]
    """Types of the arguments: 'pointer', 'int32', 'float32', ...; for Triton's code in its notation: '*fp32', 'i32'"""
    flags: tuple[str, ...] = ()
    """Compiler flags that the kernel's file requests."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """Settings of compiler and launch: warps, shared memory in bytes, passes."""

    @property
    def digest(self) -> str:
        """Identifies the code."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()


class TorchStep(_PlanPart):
    """One torch operator, such as 'aten.view.default'. `{"tensor": n}` in its arguments is a tensor of the plan."""

    kind: Literal["torch"] = "torch"
    operator: str = Field(pattern=r"^[\w.:]+$")
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = Field(default_factory=dict)
    results: tuple[int, ...]
    """Numbers of the returned tensors."""
    layouts: tuple[TensorLayout, ...]
    """Layouts of the returned tensors."""


class LaunchStep(_PlanPart):
    """One launch of a kernel."""

    kind: Literal["launch"] = "launch"
    code: str
    """Digest of the `KernelCode`."""
    arguments: tuple[Any, ...]
    """Arguments in the order of `KernelCode.parameters`: `{"tensor": n}`, a number, or a tensor descriptor as
    `{"descriptor": n, "shape": ..., "strides": ..., "block_shape": ..., "padding": ...}`."""
    grid: tuple[int, ...] = ()
    """Number of blocks along each axis; empty if the code contains it."""


class ParallelStep(_PlanPart):
    """Parallel launches on several CPU threads. The next step starts when all have ended."""

    kind: Literal["parallel"] = "parallel"
    launches: tuple[LaunchStep, ...]


Step = TorchStep | LaunchStep | ParallelStep


class LaunchPlan(_PlanPart):
    """The steps of one call, in order. Tensors are numbered: inputs first, then in the order of results."""

    inputs: tuple[Any, ...]
    """For each input the number of its tensor, or `{"value": ...}` if it is not a tensor."""
    weights: dict[str, int] = Field(default_factory=dict)
    """Numbers of parameters and buffers, by their names in the model's state."""
    constants: dict[int, str] = Field(default_factory=dict)
    """Other tensors that existed before the call, with digests of their bytes."""
    packing: LaunchPlan | None = None
    """Plan that derives packed weights, executed once per set of weights. It has no inputs, and its own numbering."""
    packed: tuple[int, ...] = ()
    """Numbers in this plan of the tensors that `packing` returns."""
    layouts: dict[int, TensorLayout]
    """Layouts of inputs, weights, constants and packed weights."""
    codes: dict[str, KernelCode]
    """Kernels by the digest of their code."""
    steps: tuple[Step, ...]
    outputs: tuple[int, ...]
    returns: Literal["tensor", "tuple", "list"]

    @property
    def digest(self) -> str:
        """Digest that is equal for plans that do the same."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()

    @property
    def parts(self) -> tuple[LaunchPlan, ...]:
        """The plan of a call, and its packing plan if there is one."""
        return (self,) if self.packing is None else (self, self.packing)

    def launches(self) -> Iterator[LaunchStep]:
        """Yield all launches of a call in order."""
        for step in self.steps:
            if isinstance(step, LaunchStep):
                yield step
            elif isinstance(step, ParallelStep):
                yield from step.launches

    def lines(self) -> list[str]:
        """Return the plan as text, a line per step: kernels with grids and tensor bytes, torch operators by name."""
        made = [step for step in self.steps if isinstance(step, TorchStep)]
        layouts = self.layouts | {
            n: layout for step in made for n, layout in zip(step.results, step.layouts, strict=False)
        }
        return [self._line(step, layouts) for step in self.steps]

    def all_lines(self) -> list[str]:
        """Return the plan as text: the packing of the weights first, then the steps of a call."""
        packing = self.packing.lines() if self.packing else ()
        return [*(f"once    {line}" for line in packing), *self.lines()]

    def difference(self, other: LaunchPlan) -> str | None:
        """Return the first difference from another plan; None if both do the same.

        The contents of constants are ignored: a scratch buffer may contain anything before a call.
        """
        if self._without_contents() == other._without_contents():
            return None
        if self.packing is not None and other.packing is not None:
            packing = self.packing.difference(other.packing)
            if packing is not None:
                return f"in what packs the weights, {packing}"
        for number, (mine, its) in enumerate(zip(self.lines(), other.lines(), strict=False), 1):
            if mine != its:
                return f"step {number}: '{mine}', then '{its}'"
        if len(self.steps) != len(other.steps):
            return f"{len(self.steps)} steps, then {len(other.steps)}"
        for number, (step, its_step) in enumerate(zip(self.steps, other.steps, strict=True), 1):
            if step != its_step:
                return f"the arguments of step {number} ({self.lines()[number - 1]})"
        different = [name for name in type(self).model_fields if getattr(self, name) != getattr(other, name)]
        return ", ".join(different)

    def _without_contents(self) -> LaunchPlan:
        packing = self.packing and self.packing._without_contents()
        return self.model_copy(update={"constants": dict.fromkeys(self.constants, ""), "packing": packing})

    def _line(self, step: Step, layouts: Mapping[int, TensorLayout]) -> str:
        if isinstance(step, TorchStep):
            shapes = ", ".join(_shape(layout) for layout in step.layouts)
            return f"torch   {step.operator.removeprefix('aten.')}{f' -> {shapes}' if shapes else ''}"
        if isinstance(step, ParallelStep):
            names = Counter(self.codes[launch.code].name for launch in step.launches)
            return "threads " + ", ".join(f"{count} x {name}" for name, count in names.items())
        code = self.codes[step.code]
        scalars = ", ".join(repr(value) for value in step.arguments if not isinstance(value, dict))
        grid = f" grid {'x'.join(map(str, step.grid))}" if step.grid else ""
        known = {name: size for name, size in code.settings.items() if isinstance(size, int)}
        size = ", ".join(f"{known[name]} {said}" for name, said in _SIZES if known.get(name))
        forms = [argument for argument in step.arguments if isinstance(argument, dict)]
        numbers = {form.get("tensor", form.get("descriptor", -1)) for form in forms}
        total = sum(layout.bytes for number, layout in layouts.items() if number in numbers)
        moved = (f" on {total / 1e6:.3g} MB" if total >= 1e6 else f" on {total / 1e3:.3g} kB") if total else ""
        return f"launch  {code.name}{grid}{f' [{size}]' if size else ''}{moved}{f' ({scalars})' if scalars else ''}"


def _shape(layout: TensorLayout) -> str:
    return f"{'x'.join(map(str, layout.shape)) or 'scalar'} {layout.dtype}"
