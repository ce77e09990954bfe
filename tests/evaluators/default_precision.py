"""A problem that computes less exactly and more slowly with PyTorch's defaults, on a CPU as if that were a GPU."""

from __future__ import annotations

import pytest
from kernelwright.core import Kernel, PythonKernel, TorchProblem
from kernelwright.evaluators.pipeline import processes

from ..conftest import SCALE_PROBLEM, torch_kernel

ROUND = """
def rounded(x, bits):
    unit = 1 << (23 - bits)
    return ((x.view(torch.int32) + unit // 2) & -unit).view(torch.float32)


def cut(x, bits):
    return (x.view(torch.int32) & -(1 << (23 - bits))).view(torch.float32)
"""
SLEEP_S = 0.02
SOURCE = SCALE_PROBLEM.replace(
    "        return x * self.weight\n",
    f"""\
        if not torch.backends.cudnn.allow_tf32:
            return x * self.weight
        time.sleep({SLEEP_S})
        if x.dtype != torch.float32:
            return x * self.weight
        return rounded(x, 10) * rounded(self.weight, 10)
""",
).replace("import torch\nfrom torch import nn\n", f"import time\n\nimport torch\nfrom torch import nn\n{ROUND}", 1)


IMAGES = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(8, 4, 3)

    def forward(self, x):
        return torch.relu(self.conv(x))


def get_inputs():
    return [torch.randn(4, 8, 16, 16)]


def get_init_inputs():
    return []
"""
"""A convolution that the library computes in fp32 whatever its switch says: this processor has no TF32."""


def images() -> TorchProblem:
    return TorchProblem(id="level1/1_997", name="997_Images", source=IMAGES)


def on_images(bits: int) -> Kernel:
    """As `rounding`, of images."""
    of_rounded = f"torch.conv2d(rounded(x, {bits}), rounded(self.conv.weight.detach(), {bits}), self.conv.bias)"
    model = IMAGES.partition("def get_inputs")[0].replace("Model(nn", "ModelNew(nn").replace("self.conv(x)", of_rounded)
    return PythonKernel.parse(f"import tilelang.cpu.language\n{ROUND}{model}")


def problem() -> TorchProblem:
    return TorchProblem(id="level1/1_999", name="999_Scale", source=SOURCE).at("cpu")


def pretend_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let PyTorch's defaults differ from fp32 here; the problem looks at the switches, as a convolution would."""
    monkeypatch.setattr(processes, "defaults_differ", lambda device: True)


def rounding(bits: int) -> Kernel:
    """A candidate that rounds its operands to that many bits of the mantissa."""
    return torch_kernel(f"return rounded(x, {bits}) * rounded(self.weight.detach(), {bits})", top=ROUND)


EXACT = torch_kernel("return x * self.weight")
