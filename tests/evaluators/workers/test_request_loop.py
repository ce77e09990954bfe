"""A worker's report of an exception."""

from __future__ import annotations

import pytest
from kernelwright.evaluators.workers.request_loop import describe

CUDA_ERROR = """CUDA error: {}
Search for `{}' in https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html for more information.
CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.
For debugging consider passing CUDA_LAUNCH_BLOCKING=1
Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.
"""


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("an illegal memory access was encountered", "cudaErrorIllegalAddress"),
        ("device-side assert triggered", "cudaErrorAssert"),
    ],
)
def test_a_cuda_error_is_one_plain_line(text: str, name: str) -> None:
    assert describe(RuntimeError(CUDA_ERROR.format(text, name))) == f"RuntimeError: CUDA error: {text}"


def test_what_is_no_advice_of_cuda_is_kept() -> None:
    text = "two lines:\nboth are kept"
    assert describe(ValueError(text)) == f"ValueError: {text}"


class _Mute(Exception):
    def __str__(self) -> str:
        raise KeyError("no text")


def test_an_exception_without_a_text_is_named() -> None:
    assert describe(_Mute()) == "_Mute: (no text: its __str__ raises KeyError)"
