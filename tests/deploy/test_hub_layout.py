"""The layout of Hugging Face's package `kernels`, loaded by it without a network where it is installed."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from ..cli.commands import kernelwright
from .results import linear, python

LOADED = """
import os
os.environ["HF_HUB_OFFLINE"] = "1"
from pathlib import Path
import torch
from kernels import get_local_kernel

linear = get_local_kernel(Path(".").resolve())
compiled = torch.compile(lambda x, *weights: linear.linear(x, *weights), fullgraph=True)
found = compiled(torch.randn(32, 64), torch.randn(64, 64), torch.randn(64))
torch.library.opcheck(linear.linear, (torch.randn(32, 64), torch.randn(64, 64, requires_grad=True), torch.randn(64)))
print([check.passed for check in linear.verify()], list(found.shape), linear.fallbacks())
"""


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hub")
    path = linear(folder, "linear.py", top="# SPDX-License-Identifier: MIT\n")
    run = kernelwright(
        *("deploy", path, "--name", "mylib::linear", "--output", "out", "--layout", "kernels", "--json"), cwd=folder
    )
    assert run.returncode == 0, run.stderr
    assert len(json.loads(run.stdout)["checks"]) == 1
    return folder / "out"


def test_files_are_where_kernels_looks(layout: Path) -> None:
    variant = layout / "build" / "torch-universal"
    assert (variant / "mylib_linear" / "__init__.py").is_file()
    assert sorted(path.name for path in layout.iterdir()) == ["README.md", "build"]
    found = json.loads((variant / "metadata.json").read_text())
    assert found.pop("id").startswith("_mylib_linear_")
    assert found == {
        "name": "mylib-linear", "version": 1, "license": "MIT", "python-depends": [], "backend": {"type": "cpu"},
    }  # fmt: skip
    assert "mylib_linear = get_local_kernel(Path(" in (layout / "README.md").read_text()


@pytest.mark.skipif(importlib.util.find_spec("kernels") is None, reason="needs the package kernels")
def test_kernels_loads_it_offline(layout: Path) -> None:
    run = python(LOADED, layout)
    assert run.stdout.splitlines()[-1] == "[True] [32, 64] {}", run.stderr
