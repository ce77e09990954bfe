"""Faults of storage, limits, locale and folders: each ends with a result or with one line, never a traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kernelwright.core import Journal, JournalError, KernelRecord, ResultsError, read_journal
from kernelwright.core.cache import Cache
from kernelwright.core.files import write_whole
from kernelwright.core.json_lines import append_lines
from kernelwright.core.keyed_store import KeyedStore

from ..cli.commands import SCALE, kernelwright
from ..conftest import SCALE_KERNEL

RECORD = KernelRecord(digest="a", source="b")


def link_to_itself(path: Path) -> None:
    path.symlink_to(path)


KERNELS: dict[str, Callable[[Path], Any]] = {
    "a folder": Path.mkdir,
    "missing": lambda path: None,
    "a link to nothing": lambda path: path.symlink_to("nothing"),
    "a link to itself": link_to_itself,
    "empty": Path.touch,
    "no text": lambda path: path.write_bytes(b"\xff\xfe\x00"),
    "null bytes": lambda path: path.write_text("a = 1\0"),
    "no Python": lambda path: path.write_text("def ("),
    "deep": lambda path: path.write_text("x = " + "(" * 5000 + ")" * 5000),
    "deep without end": lambda path: path.write_text("-" * 100_000),
    "a long number": lambda path: path.write_text("x = " + "9" * 5000),
    "a long line": lambda path: path.write_text("x = '" + "x" * 3_000_000 + "'"),
    "a surrogate": lambda path: path.write_bytes(b"x = '\xed\xa0\x80'"),
    "control characters": lambda path: path.write_text("raise \x1b]0;owned\x07 x\n"),
    "a byte order mark alone": lambda path: path.write_bytes(b"\xef\xbb\xbf"),
}


@pytest.mark.parametrize("fault", KERNELS)
@pytest.mark.parametrize("command", ["evaluate", "plan"])
def test_a_kernel_that_cannot_be_used(kernel_file: Path, fault: str, command: str) -> None:
    path = kernel_file.with_name("broken.py")
    KERNELS[fault](path)
    run = kernelwright(command, "--kernel", path, *SCALE, "--dry-run", cwd=kernel_file.parent)
    assert run.returncode == 2, run.stdout
    assert run.stderr.startswith("error: ") and run.stderr.count("\n") == 1
    assert "\x1b" not in run.stderr and len(run.stderr) < 3000


def file_at(path: Path) -> Path:
    path.parent.write_text("a file")
    return path


def folder_at(path: Path) -> Path:
    path.mkdir(parents=True)
    return path


def under_proc(path: Path) -> Path:
    return Path("/proc/nothing") / path.name


def long_name(path: Path) -> Path:
    return path.with_name("x" * 300)


def loop(path: Path) -> Path:
    path.parent.symlink_to(path.parent)
    return path


PLACES: dict[str, Callable[[Path], Path]] = {
    "a file in the place of its folder": file_at,
    "a folder in its place": folder_at,
    "a folder of the system": under_proc,
    "a name of 300 characters": long_name,
    "a link that leads to itself": loop,
}


@pytest.mark.parametrize("fault", PLACES)
def test_a_place_that_cannot_be_written(tmp_path: Path, fault: str) -> None:
    path = PLACES[fault](tmp_path / "place" / "name")
    with pytest.raises(ResultsError, match="cannot write"):
        write_whole(path, "x")
    with pytest.raises(ResultsError, match="cannot write"):
        append_lines(path, ["x"], "choose another")
    with pytest.raises(ResultsError, match="cannot write"):
        Journal(path)
    store = KeyedStore[str, int](path, dict, lambda rows, _: rows, "choose another", replaces_damaged=True)
    with pytest.raises(ResultsError, match="cannot write"):
        store.update({"a": 1})
    cache = Cache(path, int)
    cache.put("a", 1)
    assert cache.get("a") is None


def test_a_full_disk_keeps_what_is_there(tmp_path: Path, small_disk: Path) -> None:
    path = write_whole(small_disk / "kept", "before")
    with Journal(small_disk / "journal.jsonl") as journal:
        journal.append(RECORD)
        (small_disk / "others").write_bytes(bytes(os.statvfs(small_disk).f_bavail * os.statvfs(small_disk).f_frsize))
        with pytest.raises(ResultsError, match="make room"):
            journal.append(KernelRecord(digest="a", source="x" * 10_000))
        with pytest.raises(ResultsError, match="No space left on device"):
            write_whole(path, "x" * 10_000)
        (small_disk / "others").unlink()
        journal.append(RECORD)
        assert journal.records == [RECORD, RECORD]
    assert path.read_text() == "before"
    assert [item.name for item in small_disk.iterdir() if item.name.endswith(".part")] == []


def test_two_runs_in_one_folder(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal.jsonl") as journal:
        with pytest.raises(JournalError, match="is in use by another run; wait for it, or choose another folder"):
            Journal(journal.path)
        journal.append(RECORD)
    assert read_journal(journal.path) == [RECORD]


SURROUNDINGS = {
    "no home": "unset HOME; KW config",
    "a home that is missing": "HOME=/nope KW config",
    "no temporary folder": "TMPDIR=/nope KW config",
    "a cache that cannot be": "KERNELWRIGHT_CACHE=/proc/nope KW config",
    "a deleted working folder": "mkdir gone; cd gone; rmdir ../gone; KW config",
    "ASCII": "LC_ALL=C PYTHONUTF8=0 PYTHONCOERCECLOCALE=0 PYTHONIOENCODING=ascii KW config",
    "a locale that is missing": "LC_ALL=xx_XX.UTF-8 TZ=Nowhere/Nothing KW config",
    "Turkish letters": "LC_ALL=tr_TR.UTF-8 LANG=tr_TR.UTF-8 KW config",
    "a time zone of another day": "TZ=Pacific/Kiritimati KW config",
    "a narrow terminal": "COLUMNS=1 LINES=1 TERM=dumb KW config",
    "no standard input": "KW config <&-",
    "no standard error": "KW config 2>&-",
    "few files": "ulimit -n 20; KW config",
    "no new files": "ulimit -f 0; KW config",
    "little memory": "ulimit -v 1000000; KW config",
    "a small stack": "ulimit -s 128; KW config",
    "no core files, no locked memory": "ulimit -c 0 -l 0; KW config",
    "nobody may read": "umask 777; KW config",
    "an unknown level of the log": "KERNELWRIGHT_LOG=loud KW config",
}


@pytest.mark.parametrize("fault", SURROUNDINGS)
def test_surroundings(tmp_path: Path, fault: str) -> None:
    command = SURROUNDINGS[fault].replace("KW", f"{sys.executable} -m kernelwright")
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, errors="replace", cwd=tmp_path, timeout=280
    )
    assert "Traceback" not in done.stderr, done.stderr[-1500:]
    assert done.returncode in (0, 1, 2)
    assert len([line for line in done.stderr.splitlines() if "setlocale" not in line]) <= 1, done.stderr
    assert done.returncode or done.stdout


EVALUATIONS = {
    "64 files": "ulimit -n 64; KW",
    "2 GB of addresses": "ulimit -v 2000000; KW",
    "files of 100 blocks": "ulimit -f 100; KW",
    "5 s of a processor": "ulimit -t 5; KW",
    "a stack of 256 KB": "ulimit -s 256; KW",
    "a umask that hides everything": "umask 777; KW",
    "ASCII alone": "LC_ALL=C PYTHONUTF8=0 PYTHONCOERCECLOCALE=0 PYTHONIOENCODING=ascii KW",
    "a temporary folder that is missing": "TMPDIR=/nope KW",
    "no HOME": "unset HOME; KW",
    "a closed input": "KW <&-",
}
"""What an evaluation is measured in nonetheless."""


@pytest.mark.parametrize("fault", EVALUATIONS)
def test_an_evaluation_in_poor_surroundings(kernel_file: Path, fault: str) -> None:
    command = " ".join([sys.executable, "-P", "-m", "kernelwright", "evaluate", "--kernel", kernel_file.name, *SCALE])
    done = subprocess.run(
        ["bash", "-c", EVALUATIONS[fault].replace("KW", command)],
        capture_output=True,
        text=True,
        cwd=kernel_file.parent,
        timeout=280,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    assert "level1/1_999 (cpu): ok" in done.stdout


def test_two_optimizations_of_a_problem_in_one_folder(kernel_file: Path) -> None:
    """The second one neither sets aside what the first one writes nor goes on with it."""
    journal = Path("results", "multiturn_logs", "journal_999_Scale_tilelang_cpu.jsonl")
    (kernel_file.parent / journal).parent.mkdir(parents=True)
    with Journal(kernel_file.parent / journal) as first:
        first.append(RECORD)
        for more in ([], ["--resume"]):
            run = kernelwright("optimize", "--kernel", kernel_file, *SCALE, *more, cwd=kernel_file.parent)
            assert run.returncode == 2
            assert run.stderr.startswith(f"error: {journal} is in use by another run; wait for it, or choose another")
            assert run.stderr.count("\n") == 1
        first.append(RECORD)
    assert read_journal(kernel_file.parent / journal) == [RECORD, RECORD]
    assert [path.name for path in (kernel_file.parent / journal).parent.glob("journal*")] == [journal.name]


def test_the_example_is_read(kernel_file: Path) -> None:
    """What the table's commands do where nothing is wrong."""
    assert kernel_file.read_text() == SCALE_KERNEL
    run = kernelwright("evaluate", "--kernel", kernel_file, *SCALE, "--dry-run", cwd=kernel_file.parent)
    assert run.returncode == 0, run.stderr
