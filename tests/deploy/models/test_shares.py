"""What regions take of a step, by torch.profiler: events of a GPU are made up, those of a CPU are real."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import kernelwright as package
import pytest
import torch
from kernelwright.deploy.models.backend import kernelwright
from kernelwright.deploy.models.recording import recorder_for
from kernelwright.deploy.models.reference import SHARE
from kernelwright.deploy.models.shares import _RANGE, PROFILED, QUIET, shares_of, step_profiler, write_shares
from kernelwright.deploy.models.steps import LISTENERS, StepShares
from torch import nn

CPU, GPU = torch.autograd.DeviceType.CPU, torch.autograd.DeviceType.CUDA


@dataclass
class MadeUpEvent:
    """An event as torch.profiler has it, in microseconds."""

    named: str
    start: int
    took: int
    on: torch.autograd.DeviceType = CPU
    number: int = 0
    annotation: bool = False

    def is_user_annotation(self) -> bool:
        return self.annotation

    def name(self) -> str:
        return self.named

    def start_ns(self) -> int:
        return self.start * 1000

    def duration_ns(self) -> int:
        return self.took * 1000

    def device_type(self) -> torch.autograd.DeviceType:
        return self.on

    def correlation_id(self) -> int:
        return self.number


def test_kernels_of_a_gpu_count_for_the_range_that_launched_them() -> None:
    events = [
        MadeUpEvent(f"{_RANGE}one", 0, 10),
        MadeUpEvent(f"{_RANGE}one,two", 10, 10),
        MadeUpEvent(f"{_RANGE}", 20, 10),
        MadeUpEvent(f"{_RANGE}two", 40, 2),
        MadeUpEvent("aten::mm", 1, 8, number=7),  # operators count from one, as launches do
        MadeUpEvent("cuLaunchKernel", 2, 1, number=5),
        MadeUpEvent("cudaLaunchKernel", 12, 1, number=6),
        MadeUpEvent("cudaLaunchKernel", 22, 1, number=7),
        MadeUpEvent("cudaLaunchKernel", 50, 1, number=8),
        MadeUpEvent("triton_mm", 100, 1000, GPU, 5),
        MadeUpEvent("triton_both", 1100, 2000, GPU, 6),
        MadeUpEvent("of_no_region", 3100, 500, GPU, 7),
        MadeUpEvent("eager", 3000, 1000, GPU, 8),  # 600 us of it beside others
        MadeUpEvent(f"{_RANGE}one", 100, 3500, GPU),
        MadeUpEvent("Optimizer.step#SGD.step", 100, 4500, GPU, annotation=True),  # no kernel, whatever it spans
    ]
    found = shares_of(events, profiled_ms=9.0, quiet_ms=5.0, steps=1)
    assert found.regions == {"one": 2.0, "two": 1.0}
    assert (found.step_ms, found.host_ms) == (5.0, pytest.approx(1.1))


def test_ranges_of_a_cpu_are_as_long_as_their_kernels() -> None:
    events = [MadeUpEvent(f"{_RANGE}one", 0, 1000), MadeUpEvent("aten::mm", 0, 900), MadeUpEvent(_RANGE, 1000, 500)]
    assert shares_of(events, profiled_ms=2.0, quiet_ms=1.0, steps=1) == StepShares(2.0, 0.5, 1, {"one": 1.0})


class Twice(nn.Module):
    """Two equal layers, and another one."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(64, 64), nn.Linear(64, 64)])
        self.last = nn.Linear(64, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = nn.functional.relu(layer(x))
        return self.last(x)


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("KERNELWRIGHT_RECORD", str(tmp_path / "recorded"))
    monkeypatch.setenv("KERNELWRIGHT_SHARES", str(tmp_path / "shares.json"))
    torch.compiler.reset()
    yield tmp_path
    torch.compiler.reset()
    LISTENERS.clear()
    for cached in (recorder_for, step_profiler, write_shares):
        cached.cache_clear()


@pytest.mark.parametrize("marked", [False, True])
def test_a_training_step_is_recorded_with_shares(recorded: Path, marked: bool) -> None:
    torch.manual_seed(0)
    model, x = Twice(), torch.randn(32, 64)
    compiled = torch.compile(model, backend=kernelwright)
    for _ in range(QUIET + PROFILED + 4):
        compiled(x).sum().backward()
        if marked:
            package.step()
    found = StepShares.read(recorded / "shares.json")
    assert found is not None and found.steps == PROFILED and 0 <= found.host_ms < found.step_ms
    texts = {path.stem.partition("_")[2]: path.read_text() for path in (recorded / "recorded").iterdir()}
    assert {key[:16] for key in found.regions} <= texts.keys()
    assert sum(found.regions.values()) <= found.step_ms * 1.001
    (layers,) = (key for key, text in texts.items() if "addmm" in text and "relu" in text)
    (last,) = (key for key, text in texts.items() if "addmm" in text and "relu" not in text)
    times = {key[:16]: time for key, time in found.regions.items()}
    assert times[layers] > 0 and times[last] > 0
    shares = {key: float(text.partition(f"\n{SHARE} = ")[2] or -1) for key, text in texts.items()}
    assert min(shares.values()) >= 0 and sum(shares.values()) <= 1.001
    assert shares[layers] == pytest.approx(times[layers] / found.step_ms, rel=1e-3)
    torch.compile(nn.Linear(64, 3), backend=kernelwright)(x)  # which no step of those that were looked at had
    recorder_for(recorded / "recorded").write()
    (later,) = (path.read_text() for path in (recorded / "recorded").iterdir() if path.stem[7:] not in texts)
    assert SHARE not in later and "ms of a step" not in later


def test_a_mark_does_nothing_where_nobody_listens() -> None:
    before = list(LISTENERS)
    LISTENERS.clear()
    assert package.step() is None and package.step(1.0) is None
    LISTENERS.extend(before)
