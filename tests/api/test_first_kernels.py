"""Problems without a kernel: what `optimize` begins with."""

from __future__ import annotations

import json
import lzma
from pathlib import Path

import kernelwright
import pytest
from kernelwright.api.first_kernels import first_kernel_of, problem_without_kernel
from kernelwright.api.observers import Observer
from kernelwright.api.options.groups import Backend
from kernelwright.api.options.optimize import OptimizeOptions
from kernelwright.core import DeviceError, KernelError, OptionError, Problem, TorchProblem
from kernelwright.core.generated_code import GeneratedCode

RECORDED = Path(__file__).parents[1] / "agent" / "first_kernels" / "inductor_h200.jsonl.xz"
MODULE = """
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2


def get_inputs():
    return [torch.randn(64, 64)]


def get_init_inputs():
    return []
"""


class Compiler:
    """What is recorded of torch's compiler, in the place of an evaluator."""

    def __init__(self, name: str) -> None:
        lines = lzma.decompress(RECORDED.read_bytes()).splitlines()
        self._recorded = next(found for found in map(json.loads, lines) if found["id"] == name)
        self.problem = TorchProblem(id=name, name=self._recorded["name"], source=self._recorded["reference"])
        self.asked = 0

    def generated_code(self, problem: Problem) -> GeneratedCode | str:
        self.asked += 1
        return GeneratedCode.model_validate(self._recorded["code"])


@pytest.fixture
def module(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(MODULE)
    return path


def test_a_module_is_recognized_as_a_problem_without_a_kernel(module: Path) -> None:
    found = problem_without_kernel(OptimizeOptions(str(module)), str(module), "cuda")
    assert found is not None and found.source == MODULE
    named = OptimizeOptions(problem=str(module))
    assert named.named == str(module) and problem_without_kernel(named, named.named, "cuda") == found
    assert problem_without_kernel(OptimizeOptions("1_19"), "1_19", "cuda") is None


def test_bad_input_is_one_line(module: Path) -> None:
    with pytest.raises(DeviceError, match=r"mine has no tilelang_cpu kernel.*only on a GPU"):
        kernelwright.optimize(problem=str(module), device="cpu", model="rules")
    with pytest.raises(KernelError, match="no tilelang_cpu kernel 'level2/2_27'"):
        kernelwright.optimize("level2/2_27", device="cpu", model="rules")
    with pytest.raises(OptionError, match="a first one is in Triton"):
        problem_without_kernel(OptimizeOptions(str(module), backend=Backend.TILELANG), str(module), "cuda")
    with pytest.raises(OptionError, match="nothing to optimize is named"):
        kernelwright.optimize(model="rules")


def test_a_resumed_run_reads_the_first_kernel_of_before(tmp_path: Path) -> None:
    compiler, path = Compiler("level2/2_12"), tmp_path / "first_kernel.py"
    made = first_kernel_of(compiler.problem, compiler, path, False, Observer())  # type: ignore[arg-type]
    again = first_kernel_of(compiler.problem, compiler, path, True, Observer())  # type: ignore[arg-type]
    assert made.backend == "triton" and made.digest == again.digest and compiler.asked == 1


def test_what_cannot_be_made_says_which_operator_and_what_to_do(tmp_path: Path) -> None:
    compiler, path = Compiler("level1/1_57"), tmp_path / "first_kernel.py"
    with pytest.raises(KernelError, match=r"its library \(convolution\).*write a kernel file"):
        first_kernel_of(compiler.problem, compiler, path, False, Observer())  # type: ignore[arg-type]
    assert not path.exists()


@pytest.mark.gpu
def test_a_module_alone_is_optimized(module: Path, tmp_path: Path) -> None:
    result = kernelwright.optimize(
        problem=str(module), workload=None, model="rules", max_iterations=1, results=tmp_path / "results"
    )
    assert result.job.backend == "triton" and result.verified, result.outcome.stopped
    assert (tmp_path / "results" / "multiturn_logs" / "first_kernel_mine.py").exists()
    assert result.outcome.best.replay is not None and result.outcome.best.replay.replayed
