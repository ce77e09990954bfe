"""The environment variables that a user names for a function's package, in every process that imports it."""

from __future__ import annotations

from pathlib import Path

import pytest
from kernelwright.core import OptionError
from kernelwright.core.environment import named_variables

from tests.cli.commands import kernelwright

TRITON = """import os

import torch
import triton
import triton.language as tl

SCALE = float(os.environ["OPS_SCALE"])


@triton.jit
def kernel(x, y, n, factor, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) * factor, mask=at < n)


def scale(x):
    y = torch.empty_like(x)
    kernel[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), SCALE, BLOCK=64)
    return y


def scale_torch(x):
    return x * float(os.environ["OPS_SCALE"])


def inputs(seed, n=100):
    return [torch.randn(n)]
"""


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    (tmp_path / "scaleops.py").write_text(TRITON)
    names = [
        f"{option}={tmp_path}/scaleops.py::{name}"
        for option, name in (("--reference", "scale_torch"), ("--inputs", "inputs"))
    ]
    return [
        "evaluate",
        "--kernel",
        f"{tmp_path}/scaleops.py::scale",
        *names,
        "--device",
        "cpu",
        "--quick",
        "--sandbox",
        "none",
    ]


def test_reference_and_candidate_get_a_named_variable(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPS_SCALE", "3.0")
    without = kernelwright(*command, cwd=tmp_path)
    assert without.returncode == 2 and "OPS_SCALE" in without.stderr
    assert kernelwright(*command, "--env", "OPS_SCALE", cwd=tmp_path).returncode == 0
    monkeypatch.delenv("OPS_SCALE")
    assert kernelwright(*command, "--env", "OPS_SCALE=2.0", cwd=tmp_path).returncode == 0


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ("OPS_UNSET", "`env` OPS_UNSET is not set"),
        ("OPS_TOKEN=x", "its name is that of a secret"),
        ("OPS_URL=https://me:secret@there", "its value is an address"),
        ("LD_PRELOAD=/tmp/x.so", "libraries read it when processes start"),
        ("OPS SCALE", "is not a variable"),
    ],
)
def test_a_variable_that_cannot_be_passed_is_one_line(asked: str, why: str) -> None:
    with pytest.raises(OptionError, match=why) as caught:
        named_variables([asked], {})
    assert "\n" not in str(caught.value)
    assert "secret@there" not in str(caught.value)
