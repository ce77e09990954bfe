"""`kernelwright tune kernel`, as a user calls it: real compiles, real checks, real timings on the CPU."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from kernelwright.core import PythonKernel
from kernelwright.core.space_inference import declared_space
from kernelwright.tuners.formats import read_recording

from ..conftest import SCALE_KERNEL, TORCH_KERNEL
from ..surroundings import KERNELWRIGHT
from .commands import SCALE, kernelwright, refused
from .tuning import SPACE, Finished, journal_in, trials_in, tune


def test_json_is_exactly_one_object(finished: Finished) -> None:
    folder, run = finished
    assert len(run.stdout.splitlines()) == 1
    found = json.loads(run.stdout)
    assert run.returncode == (0 if found["kernel"] else 3), run.stderr
    assert (found["problem"], found["backend"], found["tuner"]) == ("level1/1_999", "tilelang_cpu", "grid")
    assert found["space"] == {"origin": "given", "size": 3, "pruned": 0}
    assert (found["trials"], found["recalled"], found["failed"]) == (3, 0, 1)
    assert found["statuses"] == {"ok": 2, "compile_error": 1}
    assert found["stopped"] == "every config of the space was tried"
    assert found["best"]["latency_ms"] > 0
    assert found["times_as_fast"] == pytest.approx(found["start"]["latency_ms"] / found["best"]["latency_ms"])
    assert {} in [final["config"] for final in found["finalists"]]
    assert found == json.loads((folder / journal_in(folder)).with_name("summary.json").read_text())
    assert "[3/3]" in run.stderr  # progress does not mix with the object


def test_journal_and_csv_hold_every_trial(finished: Finished) -> None:
    folder, _ = finished
    journal = journal_in(folder)
    searched = trials_in(journal, "search")
    assert [e["config"] for e in searched] == [{"BLOCK": 0}, {"BLOCK": 4}, {"BLOCK": 16}]
    assert [e["status"] for e in searched] == ["compile_error", "ok", "ok"]
    assert {} in [e["config"] for e in trials_in(journal, "final")]
    recording = read_recording(journal.with_name("trials.csv"))
    assert recording.space.names == ("BLOCK",)
    assert {config["BLOCK"]: result.status for config, result in recording.results.items()} == {
        e["config"]["BLOCK"]: e["status"] for e in searched
    }
    assert set(read_recording(journal).results) == set(recording.results)


def test_the_tuned_kernel_is_correct_and_has_the_best_constants(folder: Path) -> None:
    """A kernel that does its work TIMES times is fastest when it does it once."""
    once = "return build(*x.shape)(x, self.weight)"
    source = SCALE_KERNEL.replace("BLOCK = 8", "BLOCK = 8\nTIMES = 20").replace(once, "return repeated(x, self.weight)")
    repeated = "def repeated(x, w):\n    for _ in range(TIMES):\n        y = build(*x.shape)(x, w)\n    return y\n\n\n"
    (folder / "1_999.py").write_text(source.replace("class ModelNew", repeated + "class ModelNew"))
    run = tune("--param", "BLOCK=8,16", "--param", "TIMES=1,20", "--json", cwd=folder)
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    path = folder / found["kernel"]
    assert path.name.startswith("1_999_tuned")
    tuned = PythonKernel.parse(path.read_text())
    assert dict(tuned.config) == found["best"]["config"] and tuned.config["TIMES"] == 1
    assert declared_space(tuned) is not None
    again = kernelwright("evaluate", "--kernel", found["kernel"], *SCALE, "--json", cwd=folder)
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["status"] == "ok"


def test_what_was_found_is_kept_when_a_search_is_interrupted(folder: Path) -> None:
    command = [*KERNELWRIGHT, "tune", "kernel", "1_999.py", *SCALE, *SPACE, "--tuner", "random"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None and run.stderr is not None
        for line in run.stdout:
            if line.startswith("[2/"):
                break
        run.send_signal(signal.SIGINT)
        assert "--resume goes on from here" in run.stderr.read()
    assert run.returncode == 130
    summary = json.loads(journal_in(folder).with_name("summary.json").read_text())
    assert summary["stopped"] == "interrupted" and summary["trials"] >= 2
    assert journal_in(folder).with_name("trials.csv").exists()


def test_the_curve_is_a_png(finished: Finished) -> None:
    folder, _ = finished
    image = journal_in(folder).with_name("convergence.png").read_bytes()
    assert image.startswith(b"\x89PNG\r\n\x1a\n")
    assert len(image) > 5000


def test_a_killed_search_goes_on_and_measures_nothing_twice(folder: Path) -> None:
    """Killed outright after the first trial, and in the middle of a line."""
    arguments = [*SPACE, "--constraint", "BLOCK < 16", "--tuner", "random", "--no-save", "--compilers", "1"]
    command = [*KERNELWRIGHT, "tune", "kernel", "1_999.py", *SCALE, *arguments]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as run:
        assert run.stdout is not None
        for line in run.stdout:
            if line.startswith("[1/2]"):
                break
        run.send_signal(signal.SIGKILL)
    assert run.returncode == -signal.SIGKILL
    journal = journal_in(folder)
    before = trials_in(journal, "search")
    assert before
    with journal.open("a") as file:
        file.write('{"kind":"trial","origin":"sea')
    again = tune(*arguments, "--resume", cwd=folder)
    assert again.returncode in (0, 3), again.stderr
    searched = trials_in(journal, "search")
    assert searched[: len(before)] == before
    assert sorted(e["config"]["BLOCK"] for e in searched) == [0, 4]
    lines = again.stdout.splitlines()
    assert "tuning 1_999.py: 2 configs (given space), 0 ruled out by the device" in lines
    assert [line[:5] for line in lines if line.startswith("[")] == ["[1/2]", "[2/2]"]
    assert any(line.startswith("best of 2 trials: BLOCK=4") for line in lines)
    assert "\x1b" not in again.stdout
    summary = json.loads(journal.with_name("summary.json").read_text())
    assert (summary["trials"], summary["recalled"], summary["kernel"]) == (2, len(before), None)
    assert not list(journal.parent.glob("*_tuned*"))


def test_every_config_fails(folder: Path) -> None:
    """Exit code 1; what was found out is kept, and the message is shown as it is."""
    body = "raise ValueError('no [/bold] luck [i, j]')"
    (folder / "1_999.py").write_text(TORCH_KERNEL.format(top="BLOCK = 1", body=body))
    run = tune("--param", "BLOCK=1,2", "--quiet", "--plot", cwd=folder)
    assert run.returncode == 1, run.stderr
    assert run.stdout == ""
    (line,) = run.stderr.splitlines()
    assert line.startswith("failed: none of 2 configs is correct")
    assert "2 times runtime_error, first: ValueError: no [/bold] luck [i, j]; all are in results/" in line
    assert line.endswith("the unchanged kernel fails too: fix it first")
    journal = journal_in(folder)
    assert [e["status"] for e in trials_in(journal, "search")] == ["runtime_error"] * 2
    summary = json.loads(journal.with_name("summary.json").read_text())
    assert summary["best"] is None
    assert summary["device"] == summary["environment"]["device"] != "cpu"
    assert journal.with_name("trials.csv").read_text().count("runtime_error") == 2
    assert not list(journal.parent.glob("*.p[yn]*"))


def test_without_resume_the_earlier_journal_is_set_aside(finished: Finished, tmp_path: Path) -> None:
    """Even when it cannot be read; a second run at the same time is refused; SIGTERM leaves no folder behind."""
    folder = tmp_path / "copy"
    shutil.copytree(finished[0], folder)
    journal = journal_in(folder)
    before = journal.read_bytes()
    command = [*KERNELWRIGHT, "tune", "kernel", "1_999.py", *SCALE, *SPACE]
    (temporary := tmp_path / "temporary").mkdir()
    with subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, "TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as run:
        aside = journal.with_suffix(".1.jsonl")
        deadline = time.monotonic() + 60
        while not (aside.exists() and journal.exists() and journal.stat().st_size) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert "in use by another run" in refused(tune("--resume", cwd=folder))
        assert list(temporary.iterdir())
        run.send_signal(signal.SIGTERM)
        _, errors = run.communicate(timeout=60)
    assert run.returncode == 130, errors
    assert errors.strip().endswith("interrupted; the same command with --resume goes on from here")
    assert aside.read_bytes() == before
    assert {path.name for path in temporary.iterdir()} <= {"kernelwright-locks"}
