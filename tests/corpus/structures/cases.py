"""Problems for tests of structures, and what becomes of them in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent, indent
from typing import Any

from kernelwright.core import PythonKernel
from kernelwright.core.expressions import Expression

ALL = os.environ.get("TESTS_ALL_PAIRS") == "1"
SCRIPT = Path(__file__).with_name("check_structures.py")
DTYPES = ("float32", "bfloat16", *(["float16"] if ALL else []))
"""Kernels for the dtypes of 16 bits differ in its name alone."""
_FORM = """
import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
{init}
        self.to(torch.{dtype})

    def forward(self, {arguments}):
{forward}


def get_inputs():
    return [{inputs}]


def get_init_inputs():
    return []
"""


def problem(forward: str, inputs: str, arguments: str = "x", init: str = "pass", dtype: str = "float32") -> str:
    """Return a problem's file. `DTYPE` in the inputs stands for the dtype, to which the module is converted, too."""
    return _FORM.format(
        init=indent(dedent(init).strip(), " " * 8),
        forward=indent(dedent(forward).strip(), " " * 8),
        arguments=arguments,
        inputs=inputs.replace("DTYPE", f"dtype=torch.{dtype}"),
        dtype=dtype,
    )


def dynamic(
    forward: str,
    inputs: str,
    arguments: str = "x",
    init: str = "pass",
    dtype: str = "float32",
    least: int = 1,
    most: int = 40,
) -> str:
    """Return a problem's file in which the size `tokens` is free within a range."""
    free = f'tokens = {most}\nFREE = ("tokens", {least}, {most})\n'
    return problem(forward, inputs, arguments, init, dtype) + free


@dataclass(frozen=True)
class Made:
    """What became of a problem."""

    header: str
    """Of the kernel file."""
    error: float
    eager: float
    """The error of torch's own operators in the same dtype."""
    same_form: bool
    """Whether the results have the reference's shapes and dtypes."""
    source: str
    shared: Mapping[str, int]
    """By kernel, the bytes of shared memory for sm_90."""

    def require_exact(self) -> None:
        """Check the results, at most twice as far from fp64's as torch's own, and that the start is in its space."""
        assert self.same_form
        kernel = PythonKernel.parse(self.source)
        declared = kernel.declared_values.items()
        assert all(kernel.config[name] in choices for name, choices in declared), self.source
        assert all(Expression(text)(kernel.config) for text in kernel.declared_constraints), self.source
        assert self.error <= 2 * self.eager + 1e-6, self.header

    def require_products(self, structure: str) -> None:
        """Check that kernels of a structure use shared memory, as products do, and no more than there is."""
        sizes = {name: size for name, size in self.shared.items() if name.startswith(structure)}
        assert any(not name.endswith("_combined") for name in sizes)
        assert all(name.endswith("_combined") or 0 < size <= 227 * 1024 for name, size in sizes.items())

    def require_structures(self, *names: str) -> None:
        """Check which structures compute it, and that torch computes nothing."""
        assert f"({', '.join(names)})" in self.header
        assert "torch computes" not in self.header


def made(folder: Path, problems: Mapping[str, str]) -> dict[str, Made]:
    """Make kernels of problems, compile them for sm_90, and run them in Triton's interpreter."""
    for name, text in problems.items():
        (folder / f"{name}.py").write_text(text)
    files = [str(folder / f"{name}.py") for name in problems]
    compiled, run = (_script(folder, files, {"TRITON_INTERPRET": value}) for value in ("0", "1"))
    sources = {name: (folder / f"{name}_kernel.py").read_text() for name in problems}
    return {
        name: Made(
            header=sources[name].splitlines()[0].strip('"'),
            error=run[name]["error"],
            eager=run[name]["eager"],
            same_form=run[name]["form"],
            source=sources[name],
            shared=compiled[name]["shared"],
        )
        for name in problems
    }


def _script(folder: Path, files: list[str], environment: Mapping[str, str]) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(SCRIPT), str(folder), *files],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found
