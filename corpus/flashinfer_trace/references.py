"""Whether a Workload fits its Definition, and the files that it names exist."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

from .definition import Definition, TensorSpec
from .schema import Input, SafetensorsInput, ScalarInput, Workload
from .sol_execbench import CustomInput

_DTYPES = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2", "I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8", "BOOL": "bool",
}  # fmt: skip
"""The names of dtypes in safetensors files."""


def check_workload(definition: Definition, workload: Workload, root: Path) -> None:
    """Raise `ValueError`, whose text begins with the field, for a Workload that its Definition cannot run on."""
    for axis in definition.var_axes:
        if axis not in workload.axes:
            raise ValueError(f"axes: it lacks {axis}, which {definition.name} leaves open")
    if unknown := sorted(set(workload.axes) - set(definition.axes)):
        raise ValueError(f"axes.{unknown[0]}: {definition.name} has no such axis")
    try:
        extents = definition.extents(workload.axes)
    except ValueError as error:
        raise ValueError(f"axes: {error}") from None
    for name in workload.inputs:
        if name not in definition.inputs:
            raise ValueError(f"inputs.{name}: {definition.name} has no such input")
    for name, tensor in definition.inputs.items():
        given = workload.inputs.get(name)
        if given is None:
            raise ValueError(f"inputs: it lacks {name}")
        _check_input(name, tensor, given, definition, extents, root)


def _check_input(
    name: str, tensor: TensorSpec, given: Input, definition: Definition, extents: Mapping[str, int], root: Path
) -> None:
    if isinstance(given, CustomInput) and definition.custom_inputs_entrypoint is None:
        raise ValueError(f"inputs.{name}: {definition.name} has no custom_inputs_entrypoint that makes it")
    if isinstance(given, ScalarInput):
        if tensor.shape is not None:
            raise ValueError(f"inputs.{name}: a number, and {definition.name} has a tensor")
        if not math.isfinite(given.value):
            raise ValueError(f"inputs.{name}.value: {given.value} is not supported")
    if isinstance(given, SafetensorsInput):
        _check_file(name, tensor, given, definition.shape(tensor, extents), root / given.path)


def _check_file(name: str, tensor: TensorSpec, given: SafetensorsInput, shape: tuple[int, ...], path: Path) -> None:
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise ValueError(f"inputs.{name}.path: there is no file {path}")
    try:
        with safe_open(path, framework="np") as file:
            if given.tensor_key not in file.keys():  # noqa: SIM118 - a file of safetensors is not a mapping
                raise ValueError(f"inputs.{name}.tensor_key: {path} has no tensor {given.tensor_key}")
            piece = file.get_slice(given.tensor_key)
            found, dtype = tuple(piece.get_shape()), piece.get_dtype()
    except (OSError, SafetensorError) as error:
        raise ValueError(f"inputs.{name}.path: {path} is not a safetensors file ({error})") from None
    if found != shape:
        raise ValueError(f"inputs.{name}: {path} has the shape {list(found)}, the axes give {list(shape)}")
    if _DTYPES.get(dtype, dtype) != tensor.dtype:
        raise ValueError(f"inputs.{name}: {path} has {_DTYPES.get(dtype, dtype)}, the Definition {tensor.dtype}")
