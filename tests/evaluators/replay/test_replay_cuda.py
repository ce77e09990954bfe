"""Launch plans on a GPU: recorded, saved, executed without the kernel's Python, and as a CUDA graph."""

from __future__ import annotations

from pathlib import Path

import kernelwright
import pytest
import torch
from kernelwright.core import Config, PythonKernel, Status, TorchProblem
from kernelwright.corpus import find_problem

from ...conftest import SCALE_PROBLEM, OnGpu

DESCRIPTOR = """
import torch
import triton
import triton.language as tl
from torch import nn
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def relu(x, y, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    at = [tl.program_id(0) * ROWS, tl.program_id(1) * COLUMNS]
    y.store(at, tl.maximum(x.load(at), 0.0))


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        a, b = (TensorDescriptor(tensor, list(tensor.shape), list(tensor.stride()), [16, 64]) for tensor in (x, y))
        relu[(triton.cdiv(x.shape[0], 16), triton.cdiv(x.shape[1], 64))](a, b, ROWS=16, COLUMNS=64)
        return y
"""


@pytest.mark.gpu
@pytest.mark.parametrize("backend", ["triton", "tilelang"])
def test_a_saved_plan_runs_alone_and_as_a_graph(tmp_path: Path, backend: str) -> None:
    result = kernelwright.plan("level1/1_23", device="cuda", workload="tiny", backend=backend, save_plan=tmp_path)
    assert result.replayed and result.plan is not None, result.remark
    layout = result.plan.layouts[0]
    x = torch.randn(layout.shape, device="cuda")
    softmax = kernelwright.load_plan(tmp_path, device="cuda")
    torch.testing.assert_close(softmax([x], {}), torch.softmax(x, dim=1))
    replay = softmax.captured([x], {})
    x.copy_(torch.randn(layout.shape, device="cuda"))
    torch.testing.assert_close(replay(), torch.softmax(x, dim=1))


@pytest.mark.gpu
def test_tensor_descriptors_of_the_host_are_replayed(on_gpu: OnGpu) -> None:
    kernel = PythonKernel.parse(DESCRIPTOR, "descriptor.py")
    with on_gpu() as evaluator:
        (found,) = evaluator.evaluate(find_problem("level1/1_19").read().at("tiny"), kernel, [Config()])
    assert found.status is Status.OK, found.message
    assert found.replay is not None and found.replay.replayed, found.replay
    assert any(line.startswith("launch  relu grid") for line in found.replay.steps)
    assert found.host_us is not None and found.host_us > 0


FOREACH = DESCRIPTOR.replace(
    "def forward(self, x):", "def forward(self, a, b):\n        (x,) = torch.ops.aten._foreach_mm([a], [b])"
)


@pytest.mark.gpu
def test_torchs_share_is_measured_whatever_the_operator(on_gpu: OnGpu) -> None:
    if not hasattr(torch.ops.aten, "_foreach_mm"):
        pytest.skip(f"torch {torch.__version__} has no _foreach_mm")
    kernel = PythonKernel.parse(FOREACH, "foreach.py")
    with on_gpu() as evaluator:
        (found,) = evaluator.evaluate(find_problem("level1/1_1").read(), kernel, [Config()])
    assert found.rejection is not None and found.rejection.rule == "torch-operator", found.message
    assert "_foreach_mm, measured in its launch plan" in found.rejection.where


PACKS = """
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def scale(x, w, y, columns, BLOCK: tl.constexpr):
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    row = tl.program_id(0) * columns
    value = tl.load(x + row + at, at < columns) * tl.load(w + at, at < columns).to(tl.float32)
    tl.store(y + row + at, value, at < columns)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(features))

    def prepare(self):
        self.packed = torch.stack([self.weight, -self.weight])[0].contiguous()

    def forward(self, x):
        y = torch.empty_like(x)
        scale[(x.shape[0], triton.cdiv(x.shape[1], 256))](x, self.packed, y, x.shape[1], BLOCK=256)
        return y
"""


@pytest.mark.gpu
@pytest.mark.parametrize("graph", [False, True])
def test_weights_are_packed_once_on_a_gpu(on_gpu: OnGpu, tmp_path: Path, graph: bool) -> None:
    problem = TorchProblem(id="level1/1_999", name="999_Scale", source=SCALE_PROBLEM)
    kernel = PythonKernel.parse(PACKS, "packs.py")
    with on_gpu(graph=graph) as evaluator:
        (found,) = evaluator.evaluate(problem, kernel, [Config()])
        assert found.status is Status.OK and found.packing is not None, found.message
        assert found.packing.method == "CUDA events, L2 flushed"
        _, plan = evaluator.plan(problem, kernel, tmp_path)
    assert plan is not None and plan.packing is not None
    layouts = [plan.layouts[number] for number in (*plan.inputs, *plan.weights.values())]
    x, weight = (torch.randn(layout.shape, device="cuda") for layout in layouts)
    with kernelwright.load_plan(tmp_path, device="cuda") as loaded:
        replay = loaded.captured([x], {"weight": weight})
        weight.copy_(torch.randn_like(weight))
        torch.testing.assert_close(replay(), x * weight)
