"""Results as `optimize` writes them, with made-up figures; and processes in which kernelwright cannot be imported."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kernelwright.core.source_text import source_lines
from kernelwright.corpus.kernels import SHIPPED

TINY = {"batch_size": 32, "in_features": 64, "out_features": 64}
"""Sizes of 2_12, a linear layer with a leaky ReLU."""
_ALONE = "import sys; sys.modules['kernelwright'] = None; sys.path.insert(0, sys.argv.pop(1)); "
EVIDENCE: Mapping[str, Any] = {
    "compiled": True,
    "correctness": True,
    "speedup_ratio": 1.5,
    "interval": [1.4, 1.6],
    "latency_ms": 0.5,
    "reference_ms": 0.75,
    "samples": 100,
    "seeds": [1, 2, 3],
    "max_abs_error": 1e-6,
    "tolerance": 1e-4,
    "workload": "tiny",
    "sizes": TINY,
    "replayed": True,
    "device": "a processor",
    "torch": "2.13.0",
}


def linear(folder: Path, name: str, backend: str = "tilelang_cpu", top: str = "", **evidence: Any) -> Path:
    """Write the shipped kernel of 2_12 as a result; `top` stands before its code, `evidence` in place of the usual."""
    source = (SHIPPED / backend / "level2" / "2_12.py").read_text()
    return result(folder / name, source, "12_Gemm_Multiply_LeakyReLU", top, **evidence)


def result(path: Path, source: str, problem: str, top: str = "", **evidence: Any) -> Path:
    """Write a kernel as a result."""
    tree = ast.parse(source)
    body = source_lines(source)[tree.body[0].end_lineno if ast.get_docstring(tree) else 0 :]
    found = {key: value for key, value in {**EVIDENCE, **evidence}.items() if value is not None}
    header = f'"""\nProblem Name: {problem}\nEvaluation Result: {found!r}\n"""\n'
    path.write_text(header + top + "\n".join(body) + "\n")
    return path


def python(program: str, folder: Path, *arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a program that imports from a folder, and not kernelwright."""
    command = [sys.executable, "-P", "-c", _ALONE + program, str(folder), *map(str, arguments)]
    environment = {**os.environ, **variables, "PYTHONDONTWRITEBYTECODE": "1"}
    environment.pop("PYTHONPATH", None)
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=280, check=False
    )


def own_tests(folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the tests of a deployed package."""
    program = "import pytest; sys.exit(pytest.main(['-q', '-p', 'no:cacheprovider', '-W', 'ignore', 'tests']))"
    return python(program, folder, **variables)
