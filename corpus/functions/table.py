"""Inputs as a table in YAML: axes with their extents, arguments with shapes over them (docs/functions.md)."""

from __future__ import annotations

import itertools
import keyword
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from ...core import OptionError
from ...core.files import read_text
from ...core.text import data_of

INPUTS = "inputs"
_NUMBER = re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+")
_WHOLE = ("int8", "int16", "int32", "int64", "uint8")
_NARROW = "float8"
_FLOATS = ("float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2")
_SHORT = {
    "half": "float16", "fp16": "float16", "bf16": "bfloat16", "float": "float32", "fp32": "float32",
    "double": "float64", "fp64": "float64", "int": "int32", "long": "int64", "fp8": "float8_e4m3fn",
    "e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2",
}  # fmt: skip
_OF_THE_PROBLEM = ("torch", "importlib", "called", "fixed_inputs", "laid_out", "float")
"""Names that the problem's file uses."""


class TensorArgument(BaseModel):
    """A tensor: its shape by axes and numbers, its dtype, and for integers the range they are drawn from."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    shape: tuple[int | str, ...]
    dtype: str = "float32"
    below: int | str | None = None
    """Whole numbers from 0 to below this; 2 by default."""

    @field_validator("dtype")
    @classmethod
    def _of_torch(cls, dtype: str) -> str:
        """Return torch's own name of a dtype."""
        name = _SHORT.get(dtype.removeprefix("torch."), dtype.removeprefix("torch."))
        if name not in (*_FLOATS, *_WHOLE, "bool"):
            raise ValueError(f"there is no dtype {dtype!r}; take one of {', '.join((*_FLOATS, *_WHOLE, 'bool'))}")
        return name

    def expression(self) -> str:
        """Return the expression that draws it."""
        shape = "(" + "".join(f"{_extent(extent)}, " for extent in self.shape) + ")"
        if self.dtype == "bool":
            return f"torch.randint(0, 2, {shape}).bool()"
        if self.dtype in _WHOLE:
            below = "2" if self.below is None else _extent(self.below)
            return f"torch.randint(0, {below}, {shape}, dtype=torch.{self.dtype})"
        if self.dtype.startswith(_NARROW):
            return f"torch.randn({shape}).to(torch.{self.dtype})"
        return f"torch.randn({shape}, dtype=torch.{self.dtype})"


class InputTable(BaseModel):
    """The arguments of a function in order, and the extents of the axes; every combination of extents is a workload."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    axes: dict[str, int | list[int]]
    inputs: dict[str, TensorArgument | bool | int | float | str | None] = Field(min_length=1)

    @field_validator("inputs", mode="before")
    @classmethod
    def _numbers(cls, said: Any) -> Any:
        """YAML reads 1e-6 as a string; only 1.0e-6 is a number."""
        if not isinstance(said, Mapping):
            return said
        return {
            name: float(one) if isinstance(one, str) and _NUMBER.fullmatch(one) else one for name, one in said.items()
        }

    @model_validator(mode="after")
    def _named(self) -> InputTable:
        for name, extents in self.axes.items():
            if not name.isidentifier():
                raise ValueError(f"the axis {name!r} is not a name")
            if not extents if isinstance(extents, list) else False:
                raise ValueError(f"the axis {name} has no extents")
        for name, one in self.inputs.items():
            if isinstance(one, TensorArgument):
                used = [part for part in (*one.shape, one.below) if isinstance(part, str)]
                if unknown := [part for part in used if part not in self.axes]:
                    raise ValueError(f"{name} uses the axis {unknown[0]}, which is not given")
        return self

    def workloads(self) -> dict[str, dict[str, int]]:
        """Return the sizes of each workload, by constant, by its name, such as 'M=16,N=4096'."""
        several = {name: extents for name, extents in self.axes.items() if isinstance(extents, list)}
        rows = [dict(zip(several, extents, strict=True)) for extents in itertools.product(*several.values())]
        return {
            ",".join(f"{name}={value}" for name, value in row.items()): {_constant(n): row[n] for n in row}
            for row in rows
            if row
        }

    def source(self) -> str:
        """Return the constants and `get_inputs` of a problem file."""
        last = {name: extents[-1] if isinstance(extents, list) else extents for name, extents in self.axes.items()}
        lines = [f"{_constant(name)} = {extent}" for name, extent in last.items()]
        lines += [f"WORKLOADS = {self.workloads()!r}", "", "", "def get_inputs():", "    return ["]
        for name, one in self.inputs.items():
            text = one.expression() if isinstance(one, TensorArgument) else _literal(one)
            lines.append(f"        {text},  # {name!r}")
        return "\n".join([*lines, "    ]", ""])


def _constant(axis: str) -> str:
    """Return the constant of the problem's file for an axis, which may have any name."""
    return f"{axis}_" if keyword.iskeyword(axis) or axis in _OF_THE_PROBLEM else axis


def _extent(extent: int | str) -> str:
    return str(extent) if isinstance(extent, int) else _constant(extent)


def _literal(value: bool | int | float | str | None) -> str:
    special = isinstance(value, float) and not math.isfinite(value)
    return f"float({str(value)!r})" if special else repr(value)


def read_table(path: Path) -> InputTable:
    """Read a table. Raises `OptionError` with the name of a wrong entry."""
    import yaml

    if path.suffix == ".py":
        raise OptionError(f"`inputs` {path} names no function", f"write it as {path}::inputs")
    if not path.is_file():
        raise OptionError(f"`inputs`: there is no file {path}")
    with data_of(path, OptionError, "`kernelwright docs functions` has its form", "is not a table of `inputs`"):
        said: Any = yaml.safe_load(read_text(path))
        if not isinstance(said, Mapping):
            raise ValueError("it is not a mapping")
        # Axes stand beside `inputs`, so that a table begins with its sizes.
        axes = {str(name): value for name, value in said.items() if name != INPUTS}
        return InputTable.model_validate({"axes": axes, INPUTS: said.get(INPUTS, {})})
