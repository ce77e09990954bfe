"""The commands end to end on the CPU: real compiles, real checks, real timings."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

from kernelwright.commands._list_slow import SlowKernel, render_slow
from kernelwright.core import Archive, Trial, is_own, read_journal
from kernelwright.core.files import archive_path
from kernelwright.core.journal import of
from kernelwright.corpus import find_kernel, list_problems

from ..surroundings import KERNELWRIGHT
from .commands import SCALE, kernelwright


def test_optimize_ends_with_a_verified_kernel_on_disk(kernel_file: Path) -> None:
    folder = kernel_file.parent
    run = kernelwright(
        "optimize",
        "--kernel",
        str(kernel_file),
        *SCALE,
        "--target-speedup",
        "50",
        "--max-iterations",
        "1",
        "--json",
        cwd=folder,
    )
    found = json.loads(run.stdout)
    assert run.returncode == (0 if found["faster"] else 3), run.stderr
    assert found["verified"]
    assert found["target_speedup"] == 50
    assert not found["target_reached"]
    for which in ("start", "best"):
        assert found[which]["latency_ms"] > 0
        low, high = found[which]["interval"]
        assert low <= found[which]["speedup"] <= high
    assert found["start"]["reference_ms"] == found["best"]["reference_ms"], "one run timed both"
    low, high = found["gain_interval"]
    assert low <= found["gain"] <= high and (low > 1) == found["faster"] == (found["kernel"] is not None)
    if found["faster"]:
        assert f"optimized_{found['best']['speedup']:.3f}x_tilelang_cpu.py" in found["kernel"]
    history = json.loads((folder / found["history"]).read_text())
    assert len(history) == found["iterations"]
    for turn in history:
        assert turn["bottleneck_analysis"]["category"] in ("memory", "compute", "parallelism", "algorithm")
        assert turn["attempts"]
        assert turn["rationale"]
    if found["faster"]:
        again = kernelwright("evaluate", "--kernel", found["kernel"], *SCALE, "--json", cwd=folder)
        assert again.returncode == 0, again.stderr
        assert json.loads(again.stdout)["status"] == "ok"
    (learned,) = Archive(archive_path()).read()
    assert (learned.backend, learned.model) == ("tilelang_cpu", "rules")
    assert {experience.technique for experience in learned.tried} == {
        attempt["strategy"] for turn in history for attempt in turn["attempts"]
    }


def test_a_kernel_that_is_no_faster_is_not_written(kernel_file: Path) -> None:
    """Not under the name of an optimized one, nor as a patch: the start stays what it is."""
    folder = kernel_file.parent
    command = ("optimize", "--kernel", kernel_file, *SCALE, "--target-speedup", "50", "--max-trials", "1")
    run = kernelwright(*command, "--json", cwd=folder)
    found = json.loads(run.stdout)
    assert run.returncode == 3, run.stderr
    assert (found["verified"], found["faster"], found["kernel"], found["gain"]) == (True, False, None, 1.0)
    assert not list((folder / "results").rglob("*optimized_*.py"))
    quiet = kernelwright(*command, "--quiet", cwd=folder)
    assert quiet.returncode == 3 and "nothing faster was found than the start's" in quiet.stdout


def test_a_kernel_that_is_wrong_fails_with_exit_code_1(kernel_file: Path) -> None:
    kernel_file.write_text(kernel_file.read_text().replace("* W[j]", "+ W[j]"))
    run = kernelwright("optimize", "--kernel", str(kernel_file), *SCALE, cwd=kernel_file.parent)
    assert run.returncode == 1
    assert "elements differ" in run.stderr
    assert "Traceback" not in run.stderr


def trials_in(journal: Path) -> int:
    """How many trials a run has written, in all of its journals."""
    return sum(path.read_text().count('"kind":"trial"') for path in journal.parent.glob(f"{journal.stem}*.jsonl"))


def test_interrupt_and_resume(kernel_file: Path) -> None:
    folder = kernel_file.parent
    arguments = ["optimize", "--kernel", str(kernel_file), *SCALE, "--target-speedup", "50", "--max-iterations", "2"]
    process = subprocess.Popen(
        [*KERNELWRIGHT, *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    journal = folder / "results" / "multiturn_logs" / "journal_999_Scale_tilelang_cpu.jsonl"
    deadline = time.monotonic() + 120
    # The start is a trial in the run's journal, a batch's are in those beside it.
    while time.monotonic() < deadline and trials_in(journal) < 2:
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGINT)
    printed, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "turn 1/2: bottleneck" in printed and "\x1b" not in printed  # plain lines without a terminal
    assert "--resume goes on" in errors
    before = list(of(read_journal(journal), Trial))
    run = kernelwright(*arguments, "--resume", "--json", cwd=folder)
    assert run.returncode in (0, 3), run.stderr
    after = list(of(read_journal(journal), Trial))
    assert after[: len(before)] == before
    measured = [(t.evaluation.kernel_digest, str(t.evaluation.config)) for t in after if "final" not in t.origin]
    assert len(measured) == len(set(measured))
    (learned,) = Archive(archive_path()).read()  # two processes wrote the journal, both this user's
    assert is_own(journal) and learned.origin is not None and learned.origin.project == str(folder)


def test_quiet_no_save_and_resume_after_a_change(kernel_file: Path) -> None:
    """A run that tells and saves little; it is not gone on with when the kernel is another."""
    arguments = ["optimize", "--kernel", str(kernel_file), *SCALE, "--target-speedup", "0.0001", "--quiet"]
    first = kernelwright(*arguments, "--no-save", "--no-archive", cwd=kernel_file.parent)
    assert first.returncode == 3, "the start reaches the target, and nothing faster was looked for"
    assert not archive_path().exists()
    assert "nothing faster was found" in first.stdout
    assert "against the reference" in first.stdout and "turn " not in first.stdout and "[start]" not in first.stdout
    assert not list((kernel_file.parent / "results").rglob("*_optimized_*"))
    kernel_file.write_text(kernel_file.read_text() + "\n# changed\n")
    run = kernelwright(*arguments, "--resume", cwd=kernel_file.parent)
    assert run.returncode == 2
    assert "kernel changed" in run.stderr


def test_list_slow_remembers_and_feeds_a_batch(tmp_path: Path) -> None:
    """The shipped kernels of two problems, at sizes that take no time; the second listing measures nothing."""
    (tmp_path / "bench" / "level1").mkdir(parents=True)
    for problem in (file for file in list_problems() if file.id in ("level1/1_19", "level1/1_38")):
        shutil.copy(problem.path, tmp_path / "bench" / "level1")
    here = ["--device", "cpu", "--workload", "tiny", "--dataset", "bench", "--sandbox", "none"]
    arguments = ["optimize", "--list-slow", *here, "--threshold", "1000000"]
    first = kernelwright(*arguments, "--format", "json", cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    rows = json.loads(first.stdout)
    assert len(rows) == 2
    assert "10 shipped kernels are for problems that bench does not have" in first.stderr
    assert [row["speedup"] for row in rows] == sorted(row["speedup"] for row in rows)
    plain = kernelwright(*arguments, cwd=tmp_path)
    lines = plain.stdout.splitlines()
    assert {line.split()[1] for line in lines} <= {"SLOW", "MODERATE", "GOOD"}
    assert {line.split()[2] for line in lines} == {row["kernel"] for row in rows}
    # Nothing is measured again, disturbed or not: no two measurements would agree to the last digit.
    assert lines == [f"{row['speedup']:.3f} {row['category']} {row['kernel']}" for row in rows]
    table = csv.DictReader(io.StringIO(render_slow([SlowKernel(**row) for row in rows], "csv")))
    assert [row["kernel"] for row in table] == [row["kernel"] for row in rows]

    chosen = "".join(f"{line}\n" for line in lines if line.endswith(("1_19.py", "1_38.py")))
    batch = ["optimize", "--batch", "-", *here, "--target-speedup", "0.0001", "--json"]
    run = kernelwright(*batch, cwd=tmp_path, stdin=f"# two kernels\n{chosen}level9/9_9.py\n")
    assert run.returncode == 1, run.stderr
    results = json.loads(run.stdout)["results"]
    assert [result["verified"] for result in results] == [True, True, False]
    assert "9_9" in results[2]["error"]
    again = kernelwright(*batch, "--resume", cwd=tmp_path, stdin=chosen)
    assert again.returncode == 3, again.stderr
    assert [result["faster"] for result in results[:2]] == [False, False]
    assert json.loads(again.stdout)["results"] == results[:2]


def test_two_kernels_of_a_problem_in_a_batch_keep_their_evaluations_apart(tmp_path: Path) -> None:
    """Each resumes its own run: nothing is measured again, and neither takes over what the other measured."""
    source = find_kernel("1_19", "tilelang_cpu").read().source
    kernels = [tmp_path / name / "1_19.py" for name in ("one", "other")]
    for path in kernels:
        path.parent.mkdir()
    for path, text in zip(kernels, (source, f"{source}\n\nANOTHER = True\n"), strict=True):
        path.write_text(text)
    batch = ["optimize", "--batch", "-", "--device", "cpu", "--workload", "tiny", "--sandbox", "none"]
    batch += ["--target-speedup", "0.0001", "--json"]
    names = "".join(f"{path}\n" for path in kernels)
    run = kernelwright(*batch, cwd=tmp_path, stdin=names)
    assert run.returncode in (0, 3), run.stderr
    first, second = json.loads(run.stdout)["results"]
    assert first["best"]["latency_ms"] != second["best"]["latency_ms"]
    for order in (kernels, kernels[::-1]):
        again = kernelwright(*batch, "--resume", cwd=tmp_path, stdin="".join(f"{path}\n" for path in order))
        assert again.stderr.count("finished before: ") == 2, again.stderr
        found = json.loads(again.stdout)["results"]
        assert found == ([first, second] if order is kernels else [second, first])


def test_a_kernelbench_checkout_serves_as_dataset(tmp_path: Path) -> None:
    """An unmodified checkout has no workloads; sizes are given, or are those of the shipped problem."""
    checkout = tmp_path / "KernelBench" / "KernelBench" / "level1"
    checkout.mkdir(parents=True)
    (checkout / "19_ReLU.py").write_text(
        "import torch\nimport torch.nn as nn\n\n"
        "class Model(nn.Module):\n"
        "    def __init__(self):\n        super(Model, self).__init__()\n\n"
        "    def forward(self, x: torch.Tensor) -> torch.Tensor:\n        return torch.relu(x)\n\n"
        "batch_size = 4096\ndim = 393216\n\n"
        "def get_inputs():\n    x = torch.rand(batch_size, dim)\n    return [x]\n\n"
        "def get_init_inputs():\n    return []\n"
    )
    arguments = ["evaluate", "19_ReLU.py", "--dataset", "KernelBench", "--device", "cpu", "--sandbox", "none"]
    asked = "batch_size=8,dim=1024"
    for workload, named, half in ((["--workload", asked], asked, 4), ([], "cpu", 128)):
        run = kernelwright(*arguments, *workload, "--json", cwd=tmp_path)
        assert run.returncode == 0, run.stderr
        found = json.loads(run.stdout)
        assert (found["problem"], found["status"], found["workload"]) == ("level1/1_19", "ok", named)
        # Not the file's own sizes, which take 6 GB.
        assert (found["second_workload"]["sizes"]["batch_size"], found["second_workload"]["status"]) == (half, "ok")
