"""What `kernelwright profile` prints, of an evaluation that is made up."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kernelwright.cli import profile as command
from kernelwright.cli import wiring
from kernelwright.cli.request import Request
from kernelwright.core import Config, DeviceKernel, Evaluation, KernelProfile
from kernelwright.evaluators.profiling.ncu import Counted

from ..fakes import PROFILE, evaluation

RAN = KernelProfile(
    kernels=(
        DeviceKernel(name="scale", launches=2, time_ms=0.3, own=True, registers=255, spills=64, blocks=32, threads=128),
        DeviceKernel(name="void fill<[3]>", launches=1, time_ms=0.1, own=False),
    )
)


class Told:
    """An evaluator of one verdict."""

    def __init__(self, result: float | str) -> None:
        self.result = result

    def evaluate(self, problem: Any, kernel: Any, configs: Any) -> Iterator[Evaluation]:
        yield evaluation(kernel, Config(), self.result).model_copy(update={"kernel_profile": RAN})

    def profile(self, problem: Any) -> Any:
        return PROFILE

    def __enter__(self) -> Told:
        return self

    def __exit__(self, *_: object) -> None: ...


@pytest.fixture
def request_of(kernel_file: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(kernel_file.parent)
    monkeypatch.setattr(wiring, "evaluator", lambda device, trust: Told(0.5))
    return lambda **options: Request(
        kernel="1_999.py", problem="level1/999_Scale.py", device="cpu", quiet=True, **options
    )


def test_the_table_the_bottleneck_and_the_evidence(request_of: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.run_profile(request_of(), ncu=False) == 0
    lines = capsys.readouterr().out.splitlines()
    row = next(line.split() for line in lines if line.strip().startswith("scale"))
    assert row == ["scale", "0.3000", "2", "32", "128", "255", "64"]
    assert any(line.startswith("fill<[3]> (library)") for line in lines)
    assert "bottleneck: compute (instructions)" in lines
    assert "- 5.0 times its roofline floor of 0.100 ms" in lines


def test_as_json(request_of: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert command.run_profile(request_of(json=True), ncu=True) == 0
    record = json.loads(capsys.readouterr().out)
    assert KernelProfile(**record["kernel_profile"]) == RAN
    assert record["bottleneck"]["cause"] == "instructions"
    assert (record["floor_ms"], record["latency_ms"]) == (pytest.approx(0.1), 0.5)
    assert record["remark"] == "no counters: Nsight Compute counts on GPUs only"


def test_counters_are_of_the_candidates_own_kernels(
    request_of: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def count(problem: Any, kernel: Any, device: str, own: set[str]) -> Counted:
        asked.append((device, own))
        return Counted({"dram_mb": 12.5})

    request = request_of(json=True)
    job = dataclasses.replace(wiring.job(request, "1_999.py", "cpu"), device="cuda:1")
    monkeypatch.setattr(command, "count", count)
    monkeypatch.setattr(wiring, "job", lambda *_: job)
    assert command.run_profile(request, ncu=True) == 0
    assert asked == [("cuda:1", {"scale"})]
    assert json.loads(capsys.readouterr().out)["kernel_profile"]["counters"] == {"dram_mb": 12.5}


def test_a_kernel_that_is_wrong_has_no_bottleneck(
    request_of: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wiring, "evaluator", lambda device, trust: Told("wrong_value"))
    assert command.run_profile(request_of(json=True), ncu=True) == 1
    record = json.loads(capsys.readouterr().out)
    assert (record["status"], record["bottleneck"], record["remark"]) == ("wrong_value", None, "")
