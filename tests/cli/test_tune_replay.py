"""`kernelwright tune replay` and `tune export`, as a user calls them."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .commands import kernelwright, refused

ROWS = [(a, b, 1.0 + abs(a - 5) + abs(b - 3)) for a in range(8) for b in range(8)]
CSV = "A,B,time_ms\n" + "".join(f"{a},{b},{time_ms}\n" for a, b, time_ms in ROWS)
SUMMARY_KEYS = 12


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    path = tmp_path / "bowl.csv.gz"
    path.write_bytes(gzip.compress(CSV.encode()))
    return path


def test_one_json_object_the_same_every_time(recording: Path, tmp_path: Path) -> None:
    def metrics(*more: object) -> dict[str, Any]:
        options = ("--tuner", "hill_climb", "--seeds", 5, "--budget", 60, "--json")
        run = kernelwright("tune", "replay", recording, *options, *more, cwd=tmp_path)
        assert run.returncode == 0, run.stderr
        assert len(run.stdout.splitlines()) == 1
        summary: dict[str, Any] = json.loads(run.stdout)
        assert set(summary) == {"hill_climb"}
        assert summary["hill_climb"].pop("overhead_ms_per_trial") >= 0
        return summary

    first = metrics()
    assert first == metrics()
    assert len(first["hill_climb"]) == SUMMARY_KEYS - 1
    assert first["hill_climb"]["seeds"] == 5 and first["hill_climb"]["configs"] == 64
    assert first["hill_climb"]["best_ms"] == 1.0
    # Asked for many at a time, it learns of each later.
    slower = metrics("--batch", 32)["hill_climb"]
    assert slower["median_evaluations_to_99"] > first["hill_climb"]["median_evaluations_to_99"]


def test_a_table(recording: Path, tmp_path: Path) -> None:
    run = kernelwright("tune", "replay", recording, "--tuner", "hill_climb", "--seeds", 2, "--batch", 4, cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    assert "64 configs, best 1 ms (A=5, B=3)" in run.stdout
    assert "hill_climb" in run.stdout and "to 95 %" in run.stdout
    assert run.stderr == ""


def test_a_budget_that_is_too_small_gives_null(recording: Path, tmp_path: Path) -> None:
    run = kernelwright(
        "tune", "replay", recording, "--tuner", "hill_climb", "--seeds", 3, "--budget", 1, "--json", cwd=tmp_path
    )
    assert json.loads(run.stdout)["hill_climb"]["median_evaluations_to_95"] is None


def test_warm_from_another_recording(recording: Path, tmp_path: Path) -> None:
    """What was fastest there is tried first, so the best is found at once."""
    (tmp_path / "other.csv").write_text("B,A,time_ms\n3,5,2.0\n99,5,1.0\n")
    needed = []
    for warm in ([], ["--warm", "other.csv"]):
        options = ["--tuner", "hill_climb", "--seeds", 2, "--json", *warm]
        run = kernelwright("tune", "replay", recording, *options, cwd=tmp_path)
        assert run.returncode == 0, run.stderr
        needed.append(json.loads(run.stdout)["hill_climb"]["p90_evaluations_to_99"])
    assert needed[0] > needed[1] == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nowhere.csv"], "cannot read nowhere.csv: No such file or directory"),
        (
            ["nowhere.csv", "--tuner", "hill_clmb"],
            "there is no tuner 'hill_clmb'; use one of portfolio, xgboost, hill_climb",
        ),
        (["bowl.csv.gz", "--seeds", "0"], "--seeds must be at least 1, not 0"),
        (["bowl.csv.gz", "--budget", "-3"], "--budget must be at least 1"),
        (["bowl.csv.gz", "--batch", "0"], "--batch must be at least 1"),
        (["bowl.csv.gz", "--warm", "nowhere.csv"], "cannot read nowhere.csv"),
        (["bowl.csv.gz", "--warm", "names.csv"], "names.csv records the parameters A, C, but the space has A, B"),
        (["bowl.csv.gz", "--warm", "far.csv"], "no config of far.csv is in the space"),
        (["failed.csv"], "every config of failed.csv failed"),
        (["torn.csv"], "torn.csv, line 2 has 1 cells instead of 3"),
    ],
)
def test_impossible_replays(recording: Path, tmp_path: Path, arguments: list[str], says: str) -> None:
    (tmp_path / "names.csv").write_text("A,C,time_ms\n1,1,1\n")
    (tmp_path / "far.csv").write_text("A,B,time_ms\n100,1,1\n")
    (tmp_path / "failed.csv").write_text("A,B,time_ms\n100,1,\n")
    (tmp_path / "torn.csv").write_text("A,B,time_ms\n100\n")
    assert says in refused(kernelwright("tune", "replay", *arguments, cwd=tmp_path))


def test_export(recording: Path, tmp_path: Path) -> None:
    run = kernelwright("tune", "export", recording, "--csv", "out.csv", "--t4", "out.json", cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines() == [f"wrote out.{end}: 64 configs, best 1 ms" for end in ("csv", "json")]
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 65
    again = kernelwright("tune", "export", "out.json", "--csv", "again.csv", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert (tmp_path / "again.csv").read_text() == (tmp_path / "out.csv").read_text()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "--csv FILE, --t4 FILE, or both"),
        (["--csv", "same", "--t4", "same"], "with different files"),
        (["--csv", "bowl.csv.gz"], "would be overwritten"),
        (["--csv", "bowl.csv.gz/out.csv"], "cannot write bowl.csv.gz/out.csv"),
        (["--csv", "out.csv", "--kernel", "abc"], "is not a journal"),
    ],
)
def test_impossible_exports(recording: Path, tmp_path: Path, arguments: list[str], says: str) -> None:
    assert says in refused(kernelwright("tune", "export", "bowl.csv.gz", *arguments, cwd=tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["bowl.csv.gz"]


def _seconds_used(session: int) -> float:
    """Of a processor, by all living processes of a session."""
    used = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended
            fields = stat.read_text().rpartition(")")[2].split()
            used += int(fields[11]) + int(fields[12]) if int(fields[3]) == session else 0
    return used / os.sysconf("SC_CLK_TCK")


@pytest.fixture
def at_work(recording: Path, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A replay in a session of its own whose processes search."""
    command = [sys.executable, "-m", "kernelwright", "tune", "replay", str(recording)]
    command += ["--tuner", "hill_climb", "--seeds", "20000"]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as run:
        while _seconds_used(run.pid) < 3:  # it is at work then, however busy the machine is
            assert run.poll() is None
            time.sleep(0.05)
        yield run
        with contextlib.suppress(ProcessLookupError):
            os.killpg(run.pid, signal.SIGKILL)


def test_ctrl_c_ends_it_at_once(at_work: subprocess.Popen[str]) -> None:
    at_work.send_signal(signal.SIGINT)
    _, errors = at_work.communicate(timeout=60)
    assert at_work.returncode == 130
    assert errors.strip() == "interrupted"


def test_its_processes_end_with_a_command_that_is_killed(at_work: subprocess.Popen[str]) -> None:
    """Its output ends: none of them holds it."""
    at_work.kill()
    _, errors = at_work.communicate(timeout=60)
    assert errors == ""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_process_that_is_killed_ends_it(at_work: subprocess.Popen[str], number: signal.Signals) -> None:
    """The others too, and one that is stopped."""
    searching = _searching(at_work.pid)
    for pid in searching[1:]:
        os.kill(pid, signal.SIGSTOP)
    os.kill(searching[0], number)
    _, errors = at_work.communicate(timeout=60)
    assert at_work.returncode == 1
    assert errors.strip() == "error: a process of the replay died, perhaps out of memory; try fewer tuners"


def _searching(command: int) -> list[int]:
    children = Path(f"/proc/{command}/task/{command}/children").read_text().split()
    return [int(pid) for pid in children if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]


@pytest.mark.parametrize("command", [[], ["replay"], ["export"]])
def test_help(tmp_path: Path, command: list[str]) -> None:
    assert "Usage" in kernelwright("tune", *command, "--help", cwd=tmp_path).stdout
