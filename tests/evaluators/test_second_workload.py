"""A right kernel is tried at other sizes, and that leaves no trace for the next config."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from kernelwright.core import Config, Status, TorchProblem
from kernelwright.evaluators.compilation.pool import CompileResult, CompileStatus
from kernelwright.evaluators.correctness.alternate_shapes import alternate_sizes
from kernelwright.evaluators.local import LocalEvaluator
from kernelwright.evaluators.pipeline.device_access import DeviceAccess
from kernelwright.evaluators.pipeline.verification import Verification

from ..conftest import FAST, Unguarded, torch_kernel


@pytest.fixture(scope="module")
def everywhere() -> Iterator[LocalEvaluator]:
    with Unguarded(settings=replace(FAST, second_workload=True)) as shared:
        yield shared


def test_each_config_is_checked_at_its_own_sizes(everywhere: LocalEvaluator, scale_problem: TorchProblem) -> None:
    kernel = torch_kernel("return x * self.weight if len(x) > 4 or SIZE > 1 else x", top="SIZE = 1")
    first, second, third = everywhere.evaluate(
        scale_problem, kernel, [Config({"SIZE": 1}), Config({"SIZE": 2}), Config({"SIZE": 3})]
    )
    assert [evaluation.status for evaluation in (first, second, third)] == [Status.OK] * 3
    assert first.second_workload is not None and second.second_workload is not None
    assert (first.shape_specialised, second.shape_specialised, third.shape_specialised) == (True, False, False)
    assert first.second_workload.sizes == {"rows": 4, "columns": 64}
    assert first.second_workload.status is Status.WRONG_VALUE


def test_other_sizes_are_a_workload_or_another_batch(scale_problem: TorchProblem) -> None:
    assert alternate_sizes(scale_problem) == {"rows": 4, "columns": 64}
    assert alternate_sizes(scale_problem.at("tiny")) == {"rows": 32}
    source = "batch_size = 7\nclass Model: ...\ndef get_inputs(): ...\ndef get_init_inputs(): ..."
    assert alternate_sizes(TorchProblem("level1/1_1", "1_P", source)) == {"batch_size": 4}
    assert alternate_sizes(TorchProblem("level1/1_1", "1_P", source.replace("batch_size", "width"))) is None


@pytest.mark.parametrize(
    ("refused", "status"), [(CompileStatus.FAILED, Status.COMPILE_ERROR), (CompileStatus.TIMEOUT, Status.TIMEOUT)]
)
def test_what_the_compiler_refuses_there_is_not_tried(
    scale_problem: TorchProblem, refused: CompileStatus, status: Status
) -> None:
    elsewhere = CompileResult(refused, "too few rows")
    compiled = CompileResult(CompileStatus.COMPILED, elsewhere=elsewhere)
    settings = replace(FAST, second_workload=True)
    client: Any = SimpleNamespace(problem=scale_problem)
    nobody: Any = None  # it has no `check_at`
    asked = Verification(client, nobody, settings, "cuda", lambda: 1, DeviceAccess("cuda"), replayer=nobody)
    found = asked.try_other_sizes(nobody, compiled)
    assert found is not None
    assert (found.status, found.message, found.sizes) == (status, "too few rows", {"rows": 4, "columns": 64})
