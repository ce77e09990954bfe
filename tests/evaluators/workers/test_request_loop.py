"""A worker's report of an exception."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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


class _MuteError(Exception):
    def __str__(self) -> str:
        raise KeyError("no text")


def test_an_exception_without_a_text_is_named() -> None:
    assert describe(_MuteError()) == "_MuteError: (no text: its __str__ raises KeyError)"


class InterpreterError(Exception):
    """As Triton's interpreter raises it."""


def test_what_only_repeats_its_cause_is_left_out() -> None:
    cause = NotImplementedError("no assembly")
    error: BaseException = cause
    for _ in range(4):
        wrapped = InterpreterError(repr(error))
        wrapped.__cause__ = error
        error = wrapped
    assert describe(error) == "NotImplementedError: no assembly"


def test_lines_are_those_of_the_users_file(tmp_path: Path) -> None:
    folder = tmp_path / "candidate-1"
    folder.mkdir()
    names = {"call.py": "def call(): return function()", "ops.py": "\n\ndef function():\n    raise ValueError('why')\n"}
    scope: dict[str, Any] = {}
    for name, text in names.items():
        (folder / name).write_text(text)
        exec(compile(text, str(folder / name), "exec"), scope)
    with pytest.raises(ValueError, match="why") as raised:
        scope["call"]()
    assert describe(raised.value) == "ValueError: why\nline 4: raise ValueError('why')"
