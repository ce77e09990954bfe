"""Kernels that get a size as an argument, from graphs with a free size to an operator that serves the range."""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kernelwright.agent.first_kernels.from_structures import structured_kernel
from kernelwright.agent.first_kernels.unsupported_code import UnsupportedCodeError
from kernelwright.core import PythonKernel, TorchProblem
from kernelwright.core.dynamic_size import FreeSize
from kernelwright.core.operator_graph import OperatorGraph
from kernelwright.evaluators.reference.free_sizes import dynamic_shapes
from kernelwright.evaluators.reference.operator_graphs import operator_graph

from ..cli.commands import kernelwright, refused
from .results import own_tests, result

PROBLEM = """import torch
from torch import nn

tokens = 24


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(50))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


def get_inputs():
    return [torch.randn(2, tokens, 50)]


def get_init_inputs():
    return []
"""
FREE = FreeSize("tokens", 1, 24)


def other(forward: str, inputs: str) -> str:
    """Return the problem with another computation."""
    text = PROBLEM.replace("x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight", forward)
    return text.replace("torch.randn(2, tokens, 50)", inputs)


def attention(forward: str) -> str:
    """Return the problem with an attention of `x`, `k` and `v`."""
    inputs = ", ".join(["torch.randn(2, 2, tokens, 32)"] * 3)
    return other(forward, inputs).replace("forward(self, x)", "forward(self, x, k, v)")


ATTENTION = attention("nn.functional.scaled_dot_product_attention(x, k, v, is_causal=True) * self.weight[0]")
SOFT_CAPPED = attention("(torch.tanh(x @ k.mT / 40) * 5).softmax(-1) @ v * self.weight[0]")
SCAN = other("(x * self.weight[0]).cumsum(-1) / x.shape[-1]", "torch.randn(3, tokens)")
CHOICE = other("torch.topk(x * self.weight[0], 4)[0]", "torch.randn(tokens, 20)")


def dynamic_kernel(path: Path, free: FreeSize = FREE) -> PythonKernel:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    shapes = dynamic_shapes(SimpleNamespace(module=module), free)  # type: ignore[arg-type]
    graph = operator_graph(module.Model(), module.get_inputs(), free, shapes)
    problem = TorchProblem(id=path.stem, name=path.stem, source=path.read_text(), path=str(path))
    return structured_kernel(problem, OperatorGraph.model_validate(graph))


def test_a_parameter_whose_name_is_like_a_sizes_is_one(tmp_path: Path) -> None:
    path = tmp_path / "shift.py"
    source = PROBLEM.replace("forward(self, x)", "forward(self, x, size_bias)").replace("* self.weight", "+ size_bias")
    path.write_text(source.replace("torch.randn(2, tokens, 50)]", "torch.randn(2, tokens, 50), torch.randn(50)]"))
    source = dynamic_kernel(path).source
    assert re.search(r"\)\]\(\s+x, size_bias, \w+, size_tokens, ROWS=", source), source


def test_a_range_that_ends_beyond_32_bits_is_refused(tmp_path: Path) -> None:
    """Masks compare positions with the number of elements, which is 2^31 at the end of this range."""
    path = tmp_path / "large.py"
    path.write_text(other("x * 2 + 1", "torch.randn(tokens, 32768)"))
    assert "positions of 32 and of 64 bits" in refusal(path, FreeSize("tokens", 1, 2**16))
    assert refusal(path, FreeSize("tokens", 1, 2**16 - 1)) == ""


def refusal(path: Path, free: FreeSize) -> str:
    """Why there is no kernel for a range; '' where there is one."""
    try:
        dynamic_kernel(path, free)
    except UnsupportedCodeError as error:
        return str(error)
    return ""


def test_a_size_that_scales_what_is_added_is_left_to_torch(tmp_path: Path) -> None:
    path = tmp_path / "scaled.py"
    path.write_text(PROBLEM.replace("* self.weight", "* torch.add(self.weight, self.weight, alpha=x.shape[1])"))
    assert "torch computes" in dynamic_kernel(path).source.splitlines()[0]


def written(
    folder: Path, source: str = PROBLEM, parameter: str = "ROWS_0", values: Sequence[int] = (1, 8)
) -> list[Path]:
    """Write one kernel with two configs, each for a part of the range, as `optimize --dynamic` does."""
    (folder / "norm.py").write_text(source)
    kernel, found = dynamic_kernel(folder / "norm.py"), []
    (folder / "range").mkdir()
    (folder / "range" / "rule.json").write_text("{}")
    for low, high, at, value in ((1, 7, 4, values[0]), (8, 24, 24, values[1])):
        path = folder / "range" / f"tokens_{low}_{high}.py"
        evidence = {"workload": f"tokens={at}", "sizes": {"tokens": at}, "serves": ["tokens", low, high]}
        found.append(result(path, kernel.bind({parameter: value}).source, str(folder / "norm.py"), **evidence))
    return found


def deployed(folder: Path, *results: object) -> Any:
    problem = ("--problem", "norm.py", "--name", "mylib::norm", "--output", "out")
    return kernelwright("deploy", *results, *problem, "--json", cwd=folder)


@pytest.mark.parametrize(
    ("source", "parameter", "values", "shape"),
    [
        (PROBLEM, "ROWS_0", (1, 8), [2, "tokens", 50]),
        (ATTENTION, "BLOCK_M_0", (16, 32), [2, 2, "tokens", 32]),
        (SCAN, "COLUMNS_0", (16, 32), [3, "tokens"]),
        (CHOICE, "ROWS_0", (2, 16), ["tokens", 20]),
    ],
    ids=["norm", "attention", "scan", "choice"],
)
def test_one_kernel_serves_a_range_with_the_config_of_each_part(
    tmp_path: Path, source: str, parameter: str, values: tuple[int, int], shape: list[object]
) -> None:
    written(tmp_path, source, parameter, values)
    run = deployed(tmp_path, "range")
    assert run.returncode == 0, run.stderr
    serves = [text.partition(":")[0] for text in json.loads(run.stdout)["serves"]]
    assert serves == ["1 <= tokens <= 7", "8 <= tokens <= 24"]
    table = json.loads((tmp_path / "out" / "mylib_norm" / "table.json").read_text())
    assert table["visible"] and table["kernels"][0]["arguments"][0] == ["float32", shape]
    tried = own_tests(tmp_path / "out", TRITON_INTERPRET="1")  # verify() has both ends and odd values, and opcheck
    assert tried.returncode == 0, tried.stdout


def test_parts_that_overlap_and_ranges_beside_serve_are_refused(tmp_path: Path) -> None:
    first, second = written(tmp_path)
    run = deployed(tmp_path, "range", "--serve", "tokens=1..24")
    assert "say what they serve; leave out --serve" in refused(run)
    second.write_text(second.read_text().replace("['tokens', 8, 24]", "['tokens', 5, 24]"))
    assert "serve the same sizes; deploy one of them" in deployed(tmp_path, "range").stderr
    first.write_text(first.read_text().replace("'serves': ['tokens', 1, 7]", "'other': 1"))
    assert "results of `optimize --dynamic` and others; deploy each by itself" in deployed(tmp_path, "range").stderr


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (("x * torch", "x.view(2, 24, 50) * torch"), "the reference fixes tokens"),
        (("[torch.randn(2, tokens, 50)]", "[torch.randn(2, 24, 50)]"), "no dimension of its inputs follows tokens"),
        (("[torch.randn(2, tokens, 50)]", "[torch.randn(2, tokens * tokens, 50)]"), "no multiple of it"),
    ],
)
def test_what_cannot_be_dynamic(tmp_path: Path, change: tuple[str, str], why: str) -> None:
    path = tmp_path / "norm.py"
    path.write_text(PROBLEM.replace(*change))
    with pytest.raises(ValueError, match=why):
        dynamic_kernel(path)
