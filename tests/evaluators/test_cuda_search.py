"""A search on a CUDA device: compiled ahead, found in the cache, handed over on the device, compared at the end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kernelwright.core import Config, Problem, PythonKernel, Status
from kernelwright.corpus import find_kernel, find_problem
from kernelwright.evaluators.local import LocalEvaluator
from kernelwright.evaluators.multi_device import MultiDeviceEvaluator
from kernelwright.evaluators.settings import Limits, SearchSettings, Settings
from kernelwright.evaluators.timing.sampling import PRUNE_AFTER
from kernelwright.runtime.devices import cuda_devices

from .test_cuda import KERNEL

pytestmark = pytest.mark.gpu

WIDE = "rows=4096,columns=4096"


@pytest.fixture(scope="module")
def cuda(device_memory: Path) -> Iterator[LocalEvaluator]:
    settings = Settings(checks=2, limits=Limits(compile_s=60, call_s=10), search=SearchSettings(compilers=4, window=4))
    with LocalEvaluator("cuda", settings, device_memory) as evaluator:
        yield evaluator


def binaries(folder: Path) -> set[Path]:
    return set(folder.rglob("*.cubin"))


@pytest.mark.parametrize(
    ("backend", "configs"),
    [
        ("triton", [{"BLOCK_M": 64, "BLOCK_N": 64}, {"BLOCK_M": 32, "BLOCK_N": 64}]),
        ("tilelang", [{"BLOCK_M": 64, "BLOCK_N": 64}, {"BLOCK_M": 128, "BLOCK_N": 64}]),
    ],
)
def test_what_was_compiled_ahead_is_not_compiled_again(
    cuda: LocalEvaluator, backend: str, configs: list[dict[str, int]]
) -> None:
    problem, kernel = find_problem("1_1").read().at("tiny"), find_kernel("1_1", backend).read()
    compiled: list[int] = []
    for config in configs:
        before = binaries(cuda.processes.folder)
        (evaluation,) = cuda.evaluate(problem, kernel, [Config(config)])
        assert evaluation.status is Status.OK, evaluation.message
        compiled.append(len(binaries(cuda.processes.folder) - before))
    # One kernel each: what the measuring process had compiled itself would stand beside it.
    assert compiled == [1, 1]


def test_equal_code_is_measured_once_and_a_slow_config_is_pruned(cuda: LocalEvaluator, scale_problem: Problem) -> None:
    kernel = PythonKernel.parse(KERNEL.replace("BLOCK = 256", "BLOCK = 256\nDUMMY = 0"))
    configs = [Config({"BLOCK": b, "DUMMY": d}) for b, d in ((1024, 0), (1024, 1), (32, 0), (512, 0))]
    evaluation, twin, slow, other = cuda.evaluate(scale_problem.at(WIDE), kernel, configs)
    assert evaluation.ok and evaluation.duplicate_of is None
    assert twin.duplicate_of == evaluation.config and twin.measurement == evaluation.measurement
    assert (
        slow.ok and slow.measurement is not None and slow.latency_ms is not None and evaluation.latency_ms is not None
    )
    assert (len(slow.measurement.samples_ms) == PRUNE_AFTER) == (slow.latency_ms > 2 * evaluation.latency_ms)
    assert other.ok and other.duplicate_of is None


def test_wrong_values_do_not_hide_behind_an_earlier_result(cuda: LocalEvaluator, scale_problem: Problem) -> None:
    """Memory that is never written may hold what the config before it computed."""
    lazy = KERNEL.replace(
        "    tl.store(y + offsets, value, mask)", "    if BLOCK != 128:\n        tl.store(y + offsets, value, mask)"
    )
    right, wrong, after = cuda.evaluate(
        scale_problem.at(WIDE), PythonKernel.parse(lazy), [Config({"BLOCK": b}) for b in (256, 128, 512)]
    )
    assert right.ok and after.ok
    assert wrong.status is Status.WRONG_VALUE


def test_a_config_that_poisons_the_device_costs_one_trial(cuda: LocalEvaluator, scale_problem: Problem) -> None:
    stray = KERNEL.replace("y + offsets, value", "y + offsets + (1 << 40) * (BLOCK == 128), value")
    before, broken, after = cuda.evaluate(
        scale_problem.at(WIDE), PythonKernel.parse(stray), [Config({"BLOCK": b}) for b in (256, 128, 512)]
    )
    assert broken.status is Status.RUNTIME_ERROR and "illegal" in broken.message.lower()
    assert before.ok and after.ok


def test_finalists_are_timed_interleaved(cuda: LocalEvaluator, scale_problem: Problem) -> None:
    configs = [Config({"BLOCK": 256}), Config({"BLOCK": 1024}), Config()]
    found = cuda.compare(scale_problem.at(WIDE), PythonKernel.parse(KERNEL), configs)
    assert [Config(evaluation.config) for evaluation in found] == configs
    assert all(evaluation.speedup is not None for evaluation in found)
    assert len({evaluation.reference for evaluation in found}) == 1
    first, same = found[0].latency_ms, found[2].latency_ms
    assert first is not None and same is not None and abs(first / same - 1) < 0.05


@pytest.mark.gpu_alone  # a worker of xdist sees one
@pytest.mark.skipif(cuda_devices() < 2, reason="needs two CUDA GPUs")
def test_two_gpus_share_the_work(scale_problem: Problem) -> None:
    settings = Settings(limits=Limits(compile_s=60, call_s=10), search=SearchSettings(compilers=2, window=2))
    configs = [Config({"BLOCK": b}) for b in (64, 128, 256, 512, 1024, 2048)]
    with MultiDeviceEvaluator([LocalEvaluator(f"cuda:{i}", settings) for i in range(2)]) as fleet:
        found = list(fleet.evaluate(scale_problem.at(WIDE), PythonKernel.parse(KERNEL), configs))
    assert [Config(evaluation.config) for evaluation in found] == configs
    assert all(evaluation.ok for evaluation in found), [evaluation.message for evaluation in found]
    assert len({evaluation.environment["uuid"] for evaluation in found}) == 2


def test_different_kernels_are_screened_in_one_process(cuda: LocalEvaluator, scale_problem: Problem) -> None:
    kernels = [PythonKernel.parse(KERNEL.replace("BLOCK = 256", f"BLOCK = {size}")) for size in (256, 512, 1024)]
    wrong = PythonKernel.parse(KERNEL.replace("tl.store(y + offsets, value, mask)", "tl.store(y + offsets, 0.0, mask)"))
    found = list(cuda.screen(scale_problem.at(WIDE), [kernels[0], wrong, *kernels[1:]]))
    assert [evaluation.status for evaluation in found] == [Status.OK, Status.WRONG_VALUE, Status.OK, Status.OK]
    assert all(
        evaluation.latency_ms is not None and evaluation.reference is None for evaluation in found if evaluation.ok
    )


def test_the_times_of_launches_are_those_of_the_device(cuda: LocalEvaluator) -> None:
    """Of a kernel that the host launches in more time than it takes, too: together they are no longer than the call."""
    problem, kernel = find_problem("2_61").read(), find_kernel("2_61", "triton").read()
    launches = {"conv_transpose3d_relu_kernel", "group_norm_kernel"}
    for workload in (problem, problem.at("tiny")):
        (evaluation,) = cuda.evaluate(workload, kernel, [Config({"NORM_BLOCK": 2048})])
        assert evaluation.ok and evaluation.latency_ms is not None, evaluation.message
        assert set(evaluation.launches_ms) == launches
        assert 0.4 * evaluation.latency_ms < sum(evaluation.launches_ms.values()) < 1.2 * evaluation.latency_ms + 0.005
