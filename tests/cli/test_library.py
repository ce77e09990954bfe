"""Torch's library is allowed for a user's own module, and named; a benchmark's problem asks for a kernel."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from kernelwright.core import Config, TorchProblem
from kernelwright.evaluators.settings import AllowTorch, Settings

from ..conftest import SCALE_PROBLEM, TORCH_KERNEL
from ..fakes import evaluation, kernel
from .commands import kernelwright

OPTIONS = ("--device", "cpu", "--sandbox", "none", "--workload", "tiny", "--quick", "--json")


@pytest.fixture
def calling(kernel_file: Path) -> Path:
    """A file that calls torch and has no kernel, beside a benchmark's problem and the same as the user's own."""
    path = kernel_file.with_name("1_999_calling.py")
    path.write_text(TORCH_KERNEL.format(top="", body="return torch.mul(x, self.weight)"))
    path.with_name("mine.py").write_text(SCALE_PROBLEM)
    return path


def test_the_library_is_allowed_and_named_for_a_module_of_ones_own(calling: Path) -> None:
    run = kernelwright("evaluate", "--kernel", calling, "--problem", "mine.py", *OPTIONS, cwd=calling.parent)
    found = json.loads(run.stdout)
    assert (found["status"], found["library"]) == ("ok", ["mul"]), run.stderr
    run = kernelwright("evaluate", "--kernel", calling, "--problem", "mine.py", *OPTIONS[:-1], cwd=calling.parent)
    assert "torch's library computes mul" in run.stdout


def test_a_benchmarks_problem_asks_for_a_kernel(calling: Path) -> None:
    run = kernelwright("evaluate", calling, "--problem", "level1/999_Scale.py", *OPTIONS, cwd=calling.parent)
    found = json.loads(run.stdout)
    assert (found["status"], found["rejection"]["rule"]) == ("rejected", "no-own-kernel"), run.stderr
    stricter = ("--problem", "mine.py", "--allow-torch", "glue")
    run = kernelwright("evaluate", "--kernel", calling, *stricter, *OPTIONS, cwd=calling.parent)
    assert json.loads(run.stdout)["status"] == "rejected", run.stderr


@pytest.mark.parametrize(
    ("name", "allowed"),
    [("level1/1_19", "glue"), ("gemm/gemm", "glue"), ("mine", "all"), ("level_of_water", "all")],
)
def test_the_origin_of_a_problem_decides(name: str, allowed: str) -> None:
    problem = TorchProblem(id=name, name="Scale", source=SCALE_PROBLEM)
    assert Settings().torch_for(problem).value == allowed
    assert Settings(allow_torch=AllowTorch.NONE).torch_for(problem) is AllowTorch.NONE


def test_a_record_without_calls_of_the_library_has_no_field_for_them() -> None:
    plain = evaluation(kernel(1.0), Config(), 1.0)
    assert "library" not in plain.model_dump() and "library" not in plain.metrics().model_dump()
    assert plain.model_copy(update={"library": ("mm",)}).metrics().library == ("mm",)
