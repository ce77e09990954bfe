"""The policy of precision on a CUDA device, where PyTorch's defaults compute convolutions in TF32."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from kernelwright.core import Config, Evaluation, PythonKernel, Status, TorchProblem
from kernelwright.evaluators.local import LocalEvaluator
from kernelwright.evaluators.settings import AllowTorch, Precision, Settings

from ..conftest import OnGpu

pytestmark = pytest.mark.gpu

MODEL = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3)

    def forward(self, x):
        return self.conv(x)
"""
SOURCE = f"""{MODEL}

def get_inputs():
    return [torch.randn(16, 64, 64, 64)]


def get_init_inputs():
    return [64]
"""
BY_TORCH = PythonKernel.parse("import triton\n" + MODEL.replace("Model", "ModelNew"))
"""The reference as a candidate."""
AS_PYTORCH_SHIPS = PythonKernel.parse(
    BY_TORCH.source.replace("    def forward", "    torch.backends.cudnn.allow_tf32 = True\n\n    def forward")
)


GIVEN: dict[str, Any] = {"checks": 2, "allow_torch": AllowTorch.ALL, "second_workload": False}


def evaluation_by(evaluator: LocalEvaluator, kernel: PythonKernel = BY_TORCH) -> Evaluation:
    problem = TorchProblem(id="level1/1_998", name="998_Conv", source=SOURCE)
    (found,) = evaluator.evaluate(problem, kernel, [Config()])
    return found


def test_a_convolution_of_torch_computes_in_fp32_like_the_reference(on_gpu: OnGpu) -> None:
    with on_gpu(**GIVEN) as evaluator:
        found = evaluation_by(evaluator)
    assert found.ok, found.message
    assert found.environment["tf32"] == "off" and found.replay is not None and found.replay.replayed
    assert found.speedup is not None and 0.9 < found.speedup.ratio < 1.1


def test_a_convolution_in_tf32_is_wrong_in_fp32(on_gpu: OnGpu) -> None:
    with on_gpu(**GIVEN) as evaluator:
        found = evaluation_by(evaluator, AS_PYTORCH_SHIPS)
    assert found.status is Status.WRONG_VALUE and found.environment["tf32"] == "off"


def test_a_convolution_of_torch_computes_as_pytorch_ships_by_default(device_memory: Path) -> None:
    with LocalEvaluator("cuda", Settings(**GIVEN, precision=Precision.DEFAULT), device_memory) as evaluator:
        found = evaluation_by(evaluator)
    assert found.ok, found.message
    assert found.environment["tf32"] == "convolutions" and found.default_is_reference
    assert found.speedup is not None and found.speedup == found.speedup_default
