"""Packages as plug-ins of vLLM and SGLang, loaded as the engines do: by entry point, in a process of their own."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from ..cli.commands import kernelwright
from .results import linear, python

LOADED = """
from importlib.metadata import entry_points
import torch

found = {item.name: item.load() for item in entry_points(group=sys.argv[1])}
for register in found.values():
    register()
    register()  # engines may load plug-ins more than once
print(sorted(found), hasattr(torch.ops.mylib, "linear"), torch.cuda.is_initialized())
x, weight, bias = torch.randn(32, 64), torch.randn(64, 64), torch.randn(64)
expected = torch.nn.functional.leaky_relu(torch.nn.functional.linear(x, weight, bias) * 2.0, 0.1)
torch.library.opcheck(torch.ops.mylib.linear.default, (x, weight.clone().requires_grad_(), bias))
print(torch.allclose(torch.ops.mylib.linear(x, weight, bias), expected, atol=1e-4))
"""


@pytest.mark.parametrize(
    ("layout", "group", "engine"),
    [("vllm", "vllm.general_plugins", "vLLM"), ("sglang", "sglang.srt.plugins", "SGLang")],
)
def test_an_engine_finds_the_operator_in_each_process(tmp_path: Path, layout: str, group: str, engine: str) -> None:
    path = linear(tmp_path, "linear.py", top="# SPDX-License-Identifier: MIT\n")
    options = ("--name", "mylib::linear", "--output", "out", "--layout", layout)
    run = kernelwright("deploy", path, *options, cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    project = tomllib.loads((tmp_path / "out" / "pyproject.toml").read_text())["project"]
    assert project["entry-points"] == {group: {"mylib_linear": "mylib_linear.plugin:register"}}
    assert f"Installed beside {engine}, it is a plug-in" in (tmp_path / "out" / "README.md").read_text()
    site = tmp_path / "site"
    options = ("--no-build-isolation", "--no-deps", "--no-index", "--target", str(site))
    pip = [sys.executable, "-m", "pip", "install", *options, str(tmp_path / "out")]
    subprocess.run(pip, check=True, capture_output=True, timeout=200)
    shown = python(LOADED, site, group)
    assert shown.stdout.splitlines()[-2:] == ["['mylib_linear'] True False", "True"], shown.stderr
