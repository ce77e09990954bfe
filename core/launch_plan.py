"""What one call of a kernel's `forward` does, as data: kernel launches and allowed torch operators over named tensors.

A plan is made in the process that runs the candidate's Python, and executed in one that never loads it. It holds no
values of inputs or weights, so it computes on any.
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
"""Of functions: the names of a plan come from a candidate's process, and become names of files."""
_SIZES = (("num_warps", "warps"), ("shared", "B shared"))
"""Settings of a launch in the plan's text."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


_MOST = 1 << 48
"""Elements of a tensor: more than any memory holds."""
_Elements = Annotated[int, Field(ge=0, le=_MOST)]


class TensorLayout(_Part):
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
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        """The size of its elements; what a dtype's name says of its bits ('float8_e4m3fn') counts, else a byte each."""
        bits = re.search(r"\d+", self.dtype)
        return self.elements * int(bits[0]) // 8 if bits else self.elements


class KernelCode(_Part):
    """One compiled kernel: its text, and what a launch needs beside its arguments."""

    name: str = Field(pattern=_IDENTIFIER)
    """The name of the function in the kernel language."""
    kind: Literal["c", "ptx", "tir"]
    """The form of the text: PTX, TileLang's lowered IR as JSON, or C that was generated from that. The process that
    executes the plan compiles it. In a plan that a candidate's process records nothing is C: that may be anything."""
    text: str
    entry: str = Field(pattern=_IDENTIFIER)
    parameters: tuple[str, ...]
    """Types of the arguments: 'pointer', 'int32', 'float32', ...; of PTX as Triton writes them: '*fp32', 'i32', ..."""
    flags: tuple[str, ...] = ()
    """Compiler flags that the kernel's file asks for."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """What the compiler and the launch need beside the text: warps, shared memory in bytes, passes."""

    @property
    def digest(self) -> str:
        """Identifies the code."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()


class TorchStep(_Part):
    """One torch operator, such as 'aten.view.default'; `{"tensor": n}` in its arguments is a tensor of the plan."""

    kind: Literal["torch"] = "torch"
    operator: str = Field(pattern=r"^[\w.:]+$")
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = Field(default_factory=dict)
    results: tuple[int, ...]
    """Numbers of the tensors that it returns."""
    layouts: tuple[TensorLayout, ...]
    """Their layouts."""


class LaunchStep(_Part):
    """One launch of a kernel."""

    kind: Literal["launch"] = "launch"
    code: str
    """The digest of its `KernelCode`."""
    arguments: tuple[Any, ...]
    """In the order of `KernelCode.parameters`: `{"tensor": n}`, a number, or a tensor descriptor as
    `{"descriptor": n, "shape": ..., "strides": ..., "block_shape": ..., "padding": ...}`."""
    grid: tuple[int, ...] = ()
    """Blocks along each axis; empty where the code contains it."""


class ParallelStep(_Part):
    """Launches on several threads of a CPU at the same time; the next step begins when all have ended."""

    kind: Literal["parallel"] = "parallel"
    launches: tuple[LaunchStep, ...]


Step = TorchStep | LaunchStep | ParallelStep


class LaunchPlan(_Part):
    """The steps of one call, in order. Tensors have numbers: inputs first, then as steps return them."""

    inputs: tuple[Any, ...]
    """A tensor's number, or the value of an input that is no tensor, as `{"value": ...}`."""
    weights: dict[str, int] = Field(default_factory=dict)
    """Parameters and buffers by their names in the model's state."""
    constants: dict[int, str] = Field(default_factory=dict)
    """Other tensors that existed before the call, with a digest of their bytes."""
    packing: LaunchPlan | None = None
    """What makes further weights of the weights, once for each new set; it has no inputs, and numbers of its own."""
    packed: tuple[int, ...] = ()
    """The numbers of the tensors that `packing` returns, in this plan."""
    layouts: dict[int, TensorLayout]
    """Of inputs, weights, constants and what `packing` returns."""
    codes: dict[str, KernelCode]
    """Kernels by the digests of their code."""
    steps: tuple[Step, ...]
    outputs: tuple[int, ...]
    returns: Literal["tensor", "tuple", "list"]

    @property
    def digest(self) -> str:
        """Equal for two plans that do the same."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()

    @property
    def parts(self) -> tuple[LaunchPlan, ...]:
        """The plan of a call, and that of its packing where there is one."""
        return (self,) if self.packing is None else (self, self.packing)

    def launches(self) -> Iterator[LaunchStep]:
        """All launches of a call in order."""
        for step in self.steps:
            if isinstance(step, LaunchStep):
                yield step
            elif isinstance(step, ParallelStep):
                yield from step.launches

    def lines(self) -> list[str]:
        """The plan as text, a line per step: kernels with their grids and tensors' bytes, torch operators by name."""
        made = [step for step in self.steps if isinstance(step, TorchStep)]
        layouts = self.layouts | {n: one for step in made for n, one in zip(step.results, step.layouts, strict=False)}
        return [self._line(step, layouts) for step in self.steps]

    def all_lines(self) -> list[str]:
        """The plan as text, with what packs the weights, once, before what each call does."""
        packing = self.packing.lines() if self.packing else ()
        return [*(f"once    {line}" for line in packing), *self.lines()]

    def difference(self, other: LaunchPlan) -> str | None:
        """The first difference from another plan; None where they do the same.

        What constants contain does not count: a scratch buffer may contain anything before a call.
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
        for number, (one, two) in enumerate(zip(self.steps, other.steps, strict=True), 1):
            if one != two:
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
        told = (f" on {total / 1e6:.3g} MB" if total >= 1e6 else f" on {total / 1e3:.3g} kB") if total else ""
        return f"launch  {code.name}{grid}{f' [{size}]' if size else ''}{told}{f' ({scalars})' if scalars else ''}"


def _shape(layout: TensorLayout) -> str:
    return f"{'x'.join(map(str, layout.shape)) or 'scalar'} {layout.dtype}"
