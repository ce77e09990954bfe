"""What `kernelwright profile` prints, of an evaluation that is made up."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kernelwright.cli.execution import work
from kernelwright.cli.parameters import Display
from kernelwright.commands import profile as profiling
from kernelwright.commands.profile import Options, kernel_table
from kernelwright.core import Config, DeviceKernel, DeviceLimits, Evaluation, KernelProfile
from kernelwright.evaluators.profiling.counters import Counted
from kernelwright.runtime.command import find_command
from kernelwright.runtime.jobs import find_job
from kernelwright.runtime.runtime import Runtime

from ..fakes import PROFILE, evaluation

RAN = KernelProfile(
    kernels=(
        DeviceKernel(name="scale", launches=2, time_ms=0.3, own=True, registers=255, spills=64, blocks=32, threads=128),
        DeviceKernel(name="void fill<[3]>", launches=1, time_ms=0.1, own=False),
    )
)


GIVEN = {"kernel": "1_999.py", "problem": "level1/999_Scale.py", "device": "cpu"}


class Scripted:
    """An evaluator of one verdict."""

    def __init__(self, result: float | str) -> None:
        self.result = result

    def evaluate(self, problem: Any, kernel: Any, configs: Any) -> Iterator[Evaluation]:
        yield evaluation(kernel, Config(), self.result).model_copy(update={"kernel_profile": RAN})

    def profile(self, problem: Any) -> Any:
        return PROFILE

    def __enter__(self) -> Scripted:
        return self

    def __exit__(self, *_: object) -> None: ...


def scripted(monkeypatch: pytest.MonkeyPatch, result: float | str) -> None:
    def opened(runtime: Runtime, device: str, options: Options, read_code: bool) -> Callable[[], Scripted]:
        assert read_code, "causes follow from the machine code, too"
        return lambda: Scripted(result)

    monkeypatch.setattr(Runtime, "local_evaluator", opened)


@pytest.fixture
def profiled(kernel_file: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(kernel_file.parent)
    scripted(monkeypatch, 0.5)

    def profile(json: bool = False, ncu: bool = False) -> int:
        command = find_command("profile")
        assert command is not None
        return work(command, {**GIVEN, "ncu": ncu}, Display(json=json, quiet=True))

    return profile


def test_the_table_the_bottleneck_and_the_evidence(profiled: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert profiled() == 0
    lines = capsys.readouterr().out.splitlines()
    row = next(line.split() for line in lines if line.strip().startswith("scale"))
    assert row == ["scale", "75.0%", "0.3000", "2", "32", "128", "255", "64"]
    assert any(line.startswith("fill<[3]> (library)") for line in lines)
    assert "one profiled call: 0.4 ms in all, of a median of 0.5 ms" in lines
    assert "bottleneck: compute (instructions)" in lines
    assert "- 5.0 times its roofline floor of 0.100 ms" in lines


def test_a_table_that_adds_up_to_more_than_the_time_has_shares_alone(
    profiled: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted(monkeypatch, 0.109)
    assert profiled() == 0
    lines = capsys.readouterr().out.splitlines()
    row = next(line.split() for line in lines if line.strip().startswith("scale"))
    assert row == ["scale", "75.0%", "2", "32", "128", "255", "64"]
    assert "shares of one call that the profiler slowed to 0.4 ms; timed calls take 0.109 ms" in lines


def test_as_json(profiled: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert profiled(json=True, ncu=True) == 0
    record = json.loads(capsys.readouterr().out)
    assert KernelProfile(**record["kernel_profile"]) == RAN
    assert record["bottleneck"]["cause"] == "instructions"
    assert (record["floor_ms"], record["latency_ms"]) == (pytest.approx(0.1), 0.5)
    assert record["remark"] == "no counters: they are of GPUs only"


def test_counters_are_of_the_candidates_own_kernels(
    profiled: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def count(problem: Any, kernel: Any, device: str, own: set[str], sandbox: str) -> Counted:
        asked.append((device, own, sandbox))
        return Counted({"dram_mb": 12.5})

    job = dataclasses.replace(find_job(Options(**GIVEN), "1_999.py", "cpu"), device="cuda:1")
    monkeypatch.setattr(profiling, "count", count)
    monkeypatch.setattr(Runtime, "job", lambda *_: job)
    assert profiled(json=True, ncu=True) == 0
    assert asked == [("cuda:1", {"scale"}, "auto")]
    assert json.loads(capsys.readouterr().out)["kernel_profile"]["counters"] == {"dram_mb": 12.5}


def test_counters_are_collected_where_nothing_else_explains_the_time(
    profiled: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = DeviceLimits(architecture="sm_90", multiprocessors=2, shared_bytes=1, registers=65_536, threads=2048)
    job = dataclasses.replace(find_job(Options(**GIVEN), "1_999.py", "cpu"), device="cuda:1")
    monkeypatch.setattr(profiling, "count", lambda *_: Counted({"load_bytes_used_pct": 12.5}))
    monkeypatch.setattr(Runtime, "job", lambda *_: job)
    assert profiled(json=True) == 0  # by this profile the device is a CPU
    assert json.loads(capsys.readouterr().out)["kernel_profile"]["counters"] == {}
    monkeypatch.setattr(Scripted, "profile", lambda *_: PROFILE.model_copy(update={"limits": limits}))
    assert profiled(json=True) == 0
    assert json.loads(capsys.readouterr().out)["bottleneck"]["cause"] == "uncoalesced access"


def test_a_kernel_that_is_wrong_has_no_bottleneck(
    profiled: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted(monkeypatch, "wrong_value")
    assert profiled(json=True, ncu=True) == 1
    record = json.loads(capsys.readouterr().out)
    assert (record["status"], record["bottleneck"], record["remark"]) == ("wrong_value", None, "")


def test_the_estimated_occupancy_is_that_of_the_waves() -> None:
    known = {"blocks": 330, "threads": 128, "occupancy": 0.5, "resident_blocks": 2}
    ran = KernelProfile(kernels=(RAN.kernels[0].model_copy(update=known),))
    cells = {column.header: next(column.cells) for column in kernel_table(ran, 132).columns}
    assert (cells["occupancy"], cells["estimated"]) == ("50%", "31%")
    assert "estimated" not in {column.header for column in kernel_table(ran, None).columns}
