"""What is filed is what KernelBench's own scripts write, and several commands can file at once."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernelwright.commands.evaluate import FolderResult
from kernelwright.core import OptionError, ResultsError, TorchProblem
from kernelwright.corpus import find_problem
from kernelwright.evaluators.kernelbench.result import THRESHOLDS, KernelBenchResult, TimingStats, fast_p
from kernelwright.evaluators.kernelbench.run_folder import RunFolder, Sample, StrictResult


def result(runtime: float | None, reference: float | None = 2.0, correct: bool = True) -> KernelBenchResult:
    def stats(mean: float) -> TimingStats:
        return TimingStats(mean=mean, std=0.1, min=mean, max=mean, num_trials=100, hardware="a GPU", device="cuda:0")

    return KernelBenchResult(
        compiled=True,
        correctness=correct,
        metadata={"hardware": "a GPU", "device": "cuda:0"},
        runtime=runtime,
        runtime_stats=None if runtime is None else stats(runtime),
        ref_runtime=reference,
        ref_runtime_stats=None if reference is None else stats(reference),
    )


def problem(number: str) -> TorchProblem:
    return find_problem(number).read()


def file(folder: RunFolder, number: str, found: KernelBenchResult, sample: int = 0) -> None:
    numbered = problem(number)
    folder.add(Sample.of(numbered, sample), numbered, f"# kernel for {number}\n", found)


def test_where_both_protocols_were_asked_for_the_strict_figures_count(tmp_path: Path) -> None:
    """KernelBench times the reference first, alone: what disturbs that makes 12.9x of a true 1.016x."""
    folder = RunFolder(tmp_path)
    strict = {
        "1_19": StrictResult(status="ok", speedup=1.016),
        "1_94": StrictResult(status="unproven", speedup=16.2),
        "1_23": StrictResult(status="ok", speedup=3.0, contention=0.9),
        "1_36": StrictResult(status="ok", speedup=0.5),
    }
    for number, verdict in strict.items():
        numbered = problem(number)
        folder.add(Sample.of(numbered, 0), numbered, "# kernel\n", result(0.155), verdict)
    file(folder, "1_36", result(0.155))  # another text of the kernel, of which no strict verdict is known
    assert folder.speedups() == dict.fromkeys((19, 94, 23, 36), pytest.approx(12.9, abs=0.01))
    assert folder.strict_speedups() == {19: 1.016, 94: None, 23: None, 36: None}
    known = {number: folder.has_strict(Sample.of(problem(number), 0)) for number in strict}
    assert known == {"1_19": True, "1_94": True, "1_23": False, "1_36": False}, "what was disturbed is measured again"
    found = FolderResult(verdicts=(), speedups=folder.speedups(), strict_speedups=folder.strict_speedups()).to_json()
    assert (found["fast_p"]["1.5"], found["fast_p"]["1.0"], found["kernelbench_fast_p"]["1.5"]) == (0.0, 0.25, 1.0)
    alone = FolderResult(verdicts=(), speedups=folder.speedups()).to_json()
    assert alone["fast_p"]["1.5"] == 1.0 and "kernelbench_fast_p" not in alone


def test_the_files_are_those_of_kernelbench(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "runs" / "mine")
    file(folder, "1_94", result(None, None, correct=False))
    file(folder, "1_19", result(0.5))
    entries = json.loads((folder.path / "eval_results.json").read_text())
    assert list(entries) == ["19", "94"]
    stats = {
        "mean": 0.5, "std": 0.1, "min": 0.5, "max": 0.5, "num_trials": 100, "hardware": "a GPU", "device": "cuda:0",
    }  # fmt: skip
    where = {"hardware": "a GPU", "device": "cuda:0"}
    right = {"sample_id": 0, "compiled": True, "correctness": True, "metadata": where, "runtime": 0.5}
    assert entries["19"] == [{**right, "runtime_stats": stats}]
    assert list(entries["19"][0]) == ["sample_id", "compiled", "correctness", "metadata", "runtime", "runtime_stats"]
    assert (entries["94"][0]["runtime"], entries["94"][0]["runtime_stats"]) == (-1.0, {})
    baseline = json.loads((folder.path / "baseline_time_torch.json").read_text())
    assert {level: {name: time["mean"] for name, time in times.items()} for level, times in baseline.items()} == {
        "level1": {"19_ReLU.py": 2.0}
    }
    assert (folder.path / "level_1_problem_19_sample_0_kernel.py").read_text() == "# kernel for 1_19\n"


def test_other_entries_are_kept_and_the_same_one_is_replaced(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    theirs: dict[str, Any] = {"sample_id": 3, "correctness": False, "runtime": -1.0, "note": "of another tool"}
    (tmp_path / "eval_results.json").write_text(json.dumps({"19": [theirs], "7": [theirs]}))
    file(folder, "1_19", result(1.0))
    file(folder, "1_19", result(4.0))
    entries = json.loads((tmp_path / "eval_results.json").read_text())
    assert list(entries) == ["7", "19"] and entries["7"] == [theirs]
    assert [(sample["sample_id"], sample["runtime"]) for sample in entries["19"]] == [(0, 4.0), (3, -1.0)]
    assert entries["19"][1] == theirs
    assert folder.has(Sample(1, 19, 3)) and not folder.has(Sample(1, 19, 1)) and not folder.has(Sample(1, 1, 0))


FILE_MANY = """
import sys
from pathlib import Path

from kernelwright.corpus import find_problem
from kernelwright.evaluators.kernelbench.result import KernelBenchResult
from kernelwright.evaluators.kernelbench.run_folder import RunFolder, Sample

for sample in map(int, sys.argv[2:]):
    for number in ("1_19", "1_47"):
        problem = find_problem(number).read()
        found = KernelBenchResult(compiled=True, correctness=False)
        RunFolder(Path(sys.argv[1])).add(Sample.of(problem, sample), problem, f"# kernel for {number}", found)
"""


def test_commands_that_run_at_once_lose_nothing(tmp_path: Path) -> None:
    # Not forks of this process: what its threads held locked then would stay so.
    samples = [map(str, range(first, 17, 4)) for first in range(1, 5)]
    filing = [subprocess.Popen([sys.executable, "-c", FILE_MANY, str(tmp_path), *share]) for share in samples]
    assert [process.wait(timeout=100) for process in filing] == [0] * 4
    entries = json.loads((tmp_path / "eval_results.json").read_text())
    assert {number: [sample["sample_id"] for sample in found] for number, found in entries.items()} == {
        "19": list(range(1, 17)),
        "47": list(range(1, 17)),
    }


def test_fast_p_is_that_of_its_analysis(tmp_path: Path) -> None:
    """Against the formula of KernelBench's score.py, fed with arrays as its analysis builds them from the files."""
    folder = RunFolder(tmp_path)
    file(folder, "1_47", result(0.9))
    file(folder, "1_1", result(2.0))
    file(folder, "1_19", result(None, 2.0))
    file(folder, "1_23", result(None, 2.0, correct=False))
    file(folder, "1_94", result(4.0, 3.0))
    file(folder, "1_94", result(0.01), sample=1)
    file(folder, "1_94", result(4.0, 3.0))
    entries = {
        number: next(sample for sample in found if sample["sample_id"] == 0)
        for number, found in json.loads((tmp_path / "eval_results.json").read_text()).items()
    }
    baseline = json.loads((tmp_path / "baseline_time_torch.json").read_text())["level1"]
    correct = np.array([entry["correctness"] for entry in entries.values()])
    expected = np.array([item["mean"] for item in baseline.values()])[correct]
    actual = np.array([entry["runtime"] for entry in entries.values()])[correct]
    speedups = list(folder.speedups().values())
    for p in THRESHOLDS:
        assert fast_p(speedups, p) == np.sum(expected / actual > p) / len(correct)
    assert [fast_p(speedups, p) for p in (0.0, 0.8, 1.0, 2.0)] == [0.6, 0.4, 0.2, 0.2]
    assert fast_p([], 1.0) == 0.0


def test_a_folder_holds_one_level(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    file(folder, "1_19", result(1.0))
    with pytest.raises(OptionError, match="one folder per level"):
        file(folder, "2_12", result(1.0))
    assert [sample.file_name for sample in folder.samples()] == ["level_1_problem_19_sample_0_kernel.py"]


@pytest.mark.parametrize("text", ["{", '{"19": {}}', '{"ReLU": []}', "[]", '{"19": [{"sample_id": 0}]}'])
def test_a_file_that_is_not_kernelbenchs_is_left_alone(tmp_path: Path, text: str) -> None:
    (tmp_path / "eval_results.json").write_text(text)
    with pytest.raises(ResultsError, match=r"eval_results\.json"):
        file(RunFolder(tmp_path), "1_19", result(1.0))
    assert (tmp_path / "eval_results.json").read_text() == text


def test_only_numbered_problems_can_be_filed() -> None:
    with pytest.raises(OptionError, match="not a KernelBench problem"):
        Sample.of(TorchProblem("mine", "mine", problem("1_19").source), 0)
