"""The steps one by one, in this process, on a device whose clock is scripted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kernelwright.core import Problem
from kernelwright.corpus import find_problem
from kernelwright.evaluators.kernelbench.device import CpuDevice
from kernelwright.evaluators.kernelbench.precision import KernelBenchPrecision
from kernelwright.evaluators.kernelbench.protocol import KernelBenchProtocol
from kernelwright.evaluators.kernelbench.result import KernelBenchResult

SOURCE = "import torch\n\nclass ModelNew(Model):\n    def forward(self, x):\n        {}\n"


class ScriptedDevice(CpuDevice):
    """A CPU on which each timed call takes as long as it was told; it remembers the seeds that were set."""

    def __init__(self, times: list[float]) -> None:
        super().__init__("cpu")
        self.times = list(times)
        self.seeds: list[int] = []

    def set_seed(self, seed: int) -> None:
        self.seeds.append(seed)
        super().set_seed(seed)

    def time(self, call: Callable[[], object]) -> float:
        call()
        return self.times.pop(0)


def relu() -> Problem:
    return find_problem("1_19").read().at("tiny")


def run(
    device: ScriptedDevice, body: str, perf_trials: int = 2, precision: KernelBenchPrecision = KernelBenchPrecision.FP32
) -> dict[str, Any]:
    problem, source = relu(), SOURCE.format(body)
    protocol = KernelBenchProtocol(
        device, problem.source, dict(problem.sizes), source, "cuda", precision, 5, perf_trials
    )
    found = protocol.run()
    KernelBenchResult.model_validate(found)
    return found


def test_the_first_timed_call_is_left_out_and_metrics_have_three_digits() -> None:
    device = ScriptedDevice([99.0, 1.23456, 2.0, 99.0, 3.0, 7.0])
    found = run(device, "return torch.relu(x)")
    assert device.times == []
    own = {"mean": 1.62, "std": 0.383, "min": 1.23, "max": 2.0, "num_trials": 2}
    assert found["runtime_stats"] == {**own, "hardware": device.name, "device": "cpu"}
    assert (found["runtime"], found["ref_runtime"]) == (1.62, 5.0)
    assert KernelBenchResult.model_validate(found).speedup == 5.0 / 1.62


def test_seeds_are_set_where_kernelbench_sets_them() -> None:
    device = ScriptedDevice([1.0] * 6)
    found = run(device, "return torch.relu(x)")
    trials = [seed for seed in found["seeds"] for _ in range(3)]
    assert device.seeds == [42, 42, 42, *trials, 42, 42]
    assert len(set(found["seeds"])) == 5


def test_a_speedup_above_ten_is_marked() -> None:
    assert run(ScriptedDevice([1.0, 0.5, 0.5, 1.0, 5.1, 5.1]), "return torch.relu(x)")["metadata"]["excessive_speedup"]
    fair = run(ScriptedDevice([1.0, 0.5, 0.5, 1.0, 5.0, 5.0]), "return torch.relu(x)")
    assert "excessive_speedup" not in fair["metadata"]


def test_the_reference_is_timed_for_a_wrong_kernel_too() -> None:
    found = run(ScriptedDevice([1.0, 4.0, 4.0]), "return x + 1")
    assert not found["correctness"] and "runtime" not in found and found["ref_runtime"] == 4.0


def test_gradients_are_on_only_while_it_times() -> None:
    found = run(ScriptedDevice([1.0] * 3), "assert not torch.is_grad_enabled(), 'timed'; return torch.relu(x)")
    result = KernelBenchResult.model_validate(found)
    assert result.correctness and result.runtime is None and result.speedup is None
    assert result.reason == "timed"


def test_a_device_that_is_upset_counts_as_not_compiled() -> None:
    """KernelBench's last resort: the error comes again when the reference is timed, where nothing catches it."""

    class Upset(ScriptedDevice):
        def synchronize(self) -> None:
            if len(self.seeds) > 3:
                raise RuntimeError("CUDA error: an illegal memory access was encountered")

    found = run(Upset([]), "return torch.relu(x)")
    assert KernelBenchResult.model_validate(found).compiled is False
    assert found["metadata"]["cuda_error"] == "CUDA Error: CUDA error: an illegal memory access was encountered"
    assert found["metadata"]["cuda_error_name"] == "builtins.RuntimeError"


def test_precision_casts_inputs_and_widens_the_tolerance() -> None:
    for precision, dtype in ((KernelBenchPrecision.FP16, "float16"), (KernelBenchPrecision.BF16, "bfloat16")):
        body = f"assert x.dtype == torch.{dtype}, x.dtype; return torch.relu(x) * 1.005"
        assert run(ScriptedDevice([1.0] * 6), body, precision=precision)["correctness"]
    assert not run(ScriptedDevice([1.0] * 6), "return torch.relu(x) * 1.005")["correctness"]
