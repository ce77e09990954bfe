"""Which speedups a listing remembers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import kernelwright
import pytest
from kernelwright.commands import list_slow
from kernelwright.commands._list_slow import Records
from kernelwright.core import (
    Config,
    DeviceError,
    Evaluation,
    JournalError,
    Kernel,
    KernelError,
    KernelwrightError,
)
from kernelwright.evaluators.reference.client import ReferenceLostError
from kernelwright.runtime.runtime import Runtime

from ..fakes import evaluation, kernel

KEY = {"kernel": "one"}


def test_a_disturbed_speedup_is_remembered_until_a_quiet_one_is_known(tmp_path: Path) -> None:
    """Measuring it again at every call would keep a busy machine at it for ever."""
    with Records(tmp_path / "speedups.jsonl") as records:
        assert records.find(KEY) is None
        records.add(KEY, evaluation(kernel(2.0), Config(), 2.0, contention=1.5).metrics().to_json(), {})
        assert (found := records.find(KEY)) and found["contention"] == 1.5
        records.add(KEY, evaluation(kernel(2.0), Config(), 3.0).metrics().to_json(), {})
        records.add(KEY, evaluation(kernel(2.0), Config(), 4.0, contention=1.5).metrics().to_json(), {})
    with Records(tmp_path / "speedups.jsonl") as records:
        assert (found := records.find(KEY)) and (found["latency_ms"], found["contention"]) == (3.0, None)
        assert records.find({"kernel": "another"}) is None


def test_a_locked_file_names_what_moves_it(tmp_path: Path) -> None:
    path = tmp_path / "speedups.jsonl"
    with Records(path), pytest.raises(JournalError, match="wait for it, or set KERNELWRIGHT_CACHE to another folder"):
        Records(path)


def test_a_disturbed_kernel_is_measured_again_only_on_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELWRIGHT_CACHE", str(tmp_path))
    measured: list[str] = []
    contention: float | None = 1.5

    class Evaluator:
        def evaluate(self, problem: Any, kernel: Kernel, configs: Sequence[Config]) -> Iterator[Evaluation]:
            measured.append(problem.id)
            first = len(measured) == 1
            yield evaluation(kernel, configs[0], 20.0, contention=contention if first else None)

    monkeypatch.setattr(Runtime, "local_evaluator", lambda *_: lambda: nullcontext(Evaluator()))
    offered = [
        file for file in list_slow.list_kernels("tilelang_cpu") if file.problem in ("level1/1_19", "level1/1_38")
    ]
    monkeypatch.setattr(list_slow, "list_kernels", lambda _: offered)

    def listing(again: bool) -> tuple[int, list[str]]:
        """The kernels measured, and those that are shown as disturbed."""
        measured.clear()
        found = kernelwright.list_slow(device="cpu", workload="tiny", again=again)
        return len(measured), [row.kernel for row in found.disturbed]

    count, disturbed = listing(again=False)
    assert count == 2 and len(disturbed) == 1
    assert listing(again=False) == (0, disturbed)
    assert listing(again=True) == (1, disturbed)  # disturbed once more
    contention = None
    assert listing(again=True) == (1, [])
    assert listing(again=True) == (0, [])


@pytest.mark.parametrize(
    ("lost", "kept"),
    [
        (DeviceError("gone"), []),
        (ReferenceLostError("killed"), []),
        (KernelError("wrong"), [{"key": KEY, "failed": "wrong"}]),
    ],
    ids=["not measured", "a killed reference", "a wrong kernel"],
)
def test_what_the_machine_prevented_is_measured_by_the_next_listing(
    tmp_path: Path, lost: KernelwrightError, kept: list[Any]
) -> None:
    def fail() -> Any:
        raise lost

    with Records(tmp_path / "speedups.jsonl") as records, pytest.raises(type(lost)):
        records.find_or_measure(KEY, fail)
    with Records(tmp_path / "speedups.jsonl") as records:
        assert list(records.replay()) == kept
        if not kept:
            assert records.find_or_measure(KEY, lambda: ({"latency_ms": 1.0}, {}), resume=True)["latency_ms"] == 1.0


def test_a_kernel_that_was_not_measured_is_named_and_measured_by_the_next_listing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KERNELWRIGHT_CACHE", str(tmp_path))
    results: list[str | float] = ["not_measured", 2.0, 3.0]

    class Evaluator:
        def evaluate(self, problem: Any, kernel: Kernel, configs: Sequence[Config]) -> Iterator[Evaluation]:
            yield evaluation(kernel, configs[0], results.pop(0))

    monkeypatch.setattr(Runtime, "local_evaluator", lambda *_: lambda: nullcontext(Evaluator()))
    offered = [file for file in list_slow.list_kernels("tilelang_cpu") if file.problem == "level1/1_19"]
    monkeypatch.setattr(list_slow, "list_kernels", lambda _: offered)
    assert kernelwright.list_slow(device="cpu", workload="tiny").failed == ("level1/1_19: as told",)
    assert kernelwright.list_slow(device="cpu", workload="tiny", resume=True).failed == ()
    assert len(results) == 1
    kernelwright.list_slow(device="cpu", workload="tiny", quick=True)
    assert results == [], "a quick record is none of a full listing, nor the other way round"


def test_a_disturbed_speedup_hides_no_slow_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reference that waited for a core makes 9.7x of a true 0.467x, and the record stays until it is made anew."""
    monkeypatch.setenv("KERNELWRIGHT_CACHE", str(tmp_path))
    disturbed = [True]

    class Evaluator:
        def evaluate(self, problem: Any, kernel: Kernel, configs: Sequence[Config]) -> Iterator[Evaluation]:
            latency, contention = (1.03, 0.9) if disturbed[0] else (21.4, None)
            yield evaluation(kernel, configs[0], latency, contention=contention)

    monkeypatch.setattr(Runtime, "local_evaluator", lambda *_: lambda: nullcontext(Evaluator()))
    offered = [file for file in list_slow.list_kernels("tilelang_cpu") if file.problem == "level1/1_19"]
    monkeypatch.setattr(list_slow, "list_kernels", lambda _: offered)
    for _ in ("measured", "from its record"):
        found = kernelwright.list_slow(device="cpu", workload="tiny")
        assert [(row.kernel, row.category) for row in found.slow] == [("level1/1_19.py", "DISTURBED")]
        assert list_slow.slow_table(found.slow, found.measured, 0.8).title == "0 of 1 kernels below 0.8x, 1 disturbed"
    disturbed[0] = False
    found = kernelwright.list_slow(device="cpu", workload="tiny", again=True)
    assert [(row.category, round(row.speedup, 3)) for row in found.slow] == [("SLOW", 0.467)]
