"""Launch plans on a GPU: recorded, saved, executed without the kernel's Python, and as a CUDA graph."""

from __future__ import annotations

from pathlib import Path

import kernelwright
import pytest
import torch
from kernelwright.core import Config, PythonKernel, Status
from kernelwright.corpus import find_problem
from kernelwright.evaluators.local import LocalEvaluator

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
        a, b = (TensorDescriptor(one, list(one.shape), list(one.stride()), [16, 64]) for one in (x, y))
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
def test_tensor_descriptors_of_the_host_are_replayed() -> None:
    kernel = PythonKernel.parse(DESCRIPTOR, "descriptor.py")
    with LocalEvaluator("cuda") as evaluator:
        (found,) = evaluator.evaluate(find_problem("level1/1_19").read().at("tiny"), kernel, [Config()])
    assert found.status is Status.OK, found.message
    assert found.replay is not None and found.replay.replayed, found.replay
    assert any(line.startswith("launch  relu grid") for line in found.replay.steps)
