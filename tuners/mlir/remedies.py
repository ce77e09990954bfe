"""Advice for a function without linalg operations that can be scheduled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .operations import is_quantized

_TORCH = (
    "lower it first: iree-opt --torch-{}-torch-backend-pipeline --torch-backend-to-linalg-on-tensors-backend-pipeline"
)
_INPUT = "lower it first: iree-compile --compile-to=input --iree-hal-target-backends=llvm-cpu"
_QUANTIZED = (
    "split off the zero points first: iree-opt --pass-pipeline='builtin.module(func.func("
    "iree-global-opt-quantized-matmul-to-matmul,iree-global-opt-quantized-conv-to-conv))'"
)


def remedy(body: Sequence[Any]) -> str:
    """Return advice by the operations of the function."""
    names = {statement.name for statement in body}
    dialects = {name.partition(".")[0] for name in names}
    if "torch" in dialects:
        onnx = any(
            "onnx." in str(statement.attributes["name"]) for statement in body if statement.name == "torch.operator"
        )
        return f"it is written in torch: {_TORCH.format('onnx-to' if onnx else 'function-to')}"
    for dialect in ("stablehlo", "tosa"):
        if dialect in dialects:
            return f"it is written in {dialect}: {_INPUT}"
    if names & {"func.call", "util.call"}:
        return "what stands in functions that it calls is not scheduled: put it into this one with iree-opt --inline"
    if any(map(is_quantized, names)):
        return _QUANTIZED
    return "give one with a matrix product or a 2-d convolution"
