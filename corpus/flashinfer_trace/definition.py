"""A Definition: a computation with its axes and reference."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from ...core.syntax_tree import expression_tree, syntax_tree
from .record import Count, FileName, Record, Text
from .sol_execbench import ExprAxis

DType = Literal[
    "float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float4_e2m1", "float4_e2m1fn_x2",
    "int64", "int32", "int16", "int8", "bool",
]  # fmt: skip


class ConstAxis(Record):
    """An extent that is always the same."""

    type: Literal["const"]
    value: Count
    description: str | None = None


class VarAxis(Record):
    """An extent that each Workload sets."""

    type: Literal["var"]
    description: str | None = None


Axis = Annotated[ConstAxis | VarAxis | ExprAxis, Field(discriminator="type")]


class TensorSpec(Record):
    """An input or output: the names of its axes, or None for a Python number."""

    shape: tuple[Text, ...] | None
    dtype: DType
    description: str | None = None


class Definition(Record):
    """A computation: axes, inputs and outputs in the order of the interface, and a reference with `run`."""

    name: FileName
    op_type: FileName | None = None
    """Such as 'gemm'. Only SOL-ExecBench does without it."""
    axes: dict[Text, Axis]
    inputs: dict[Text, TensorSpec]
    outputs: dict[Text, TensorSpec]
    reference: Text
    """Python source with a top-level function `run`, which takes the inputs and returns the outputs, in order."""
    tags: tuple[Text, ...] = ()
    description: str | None = None
    constraints: tuple[Text, ...] = ()
    """Python expressions over the axes and inputs."""
    custom_inputs_entrypoint: Text | None = None
    """The reference's function that makes all inputs; in SOL-ExecBench only."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        functions = _functions(self.reference)
        if "run" not in functions:
            raise ValueError("reference: it defines no top-level function run")
        if self.custom_inputs_entrypoint not in (None, *functions):
            raise ValueError(f"custom_inputs_entrypoint: reference defines no function {self.custom_inputs_entrypoint}")
        if not self.outputs:
            raise ValueError("outputs: there is none")
        if both := sorted(self.inputs.keys() & self.outputs.keys()):
            raise ValueError(f"outputs.{both[0]}: an input has this name")
        for kind, tensors in (("inputs", self.inputs), ("outputs", self.outputs)):
            for name, tensor in tensors.items():
                for extent in tensor.shape or ():
                    if extent not in self.axes and not extent.isdigit():
                        raise ValueError(f"{kind}.{name}.shape: there is no axis {extent}")
        plain = {name for name, axis in self.axes.items() if not isinstance(axis, ExprAxis)}
        for name, axis in self.axes.items():
            if isinstance(axis, ExprAxis) and (unknown := sorted(axis.names - plain)):
                raise ValueError(f"axes.{name}.expression: there is no const or var axis {unknown[0]}")
        for number, constraint in enumerate(self.constraints):
            try:
                expression_tree(constraint)
            except SyntaxError:
                raise ValueError(f"constraints.{number}: {constraint!r} is not a Python expression") from None
        return self

    @property
    def var_axes(self) -> tuple[str, ...]:
        """The axes that a Workload sets."""
        return tuple(name for name, axis in self.axes.items() if isinstance(axis, VarAxis))

    def extents(self, set_axes: Mapping[str, int]) -> dict[str, int]:
        """Return the extents of all axes, given those of the var axes; `ValueError` for an expression without one."""
        known = {name: axis.value for name, axis in self.axes.items() if isinstance(axis, ConstAxis)}
        known |= {name: set_axes[name] for name in self.var_axes}
        follow = {name: axis.extent(known) for name, axis in self.axes.items() if isinstance(axis, ExprAxis)}
        return known | follow

    def shape(self, tensor: TensorSpec, extents: Mapping[str, int]) -> tuple[int, ...]:
        """Return a tensor's shape; empty for a number."""
        return tuple(int(axis) if axis.isdigit() else extents[axis] for axis in tensor.shape or ())


def _functions(source: str) -> list[str]:
    try:
        tree = syntax_tree(source)
    except (SyntaxError, ValueError) as error:
        raise ValueError(f"reference: no valid Python: {error}") from None
    return [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
