"""Names that are hard to write, disks that refuse, folders that vanish, clocks that are wrong, several at once."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import kernelwright
import pytest
from kernelwright.core import (
    Archive,
    ArchivedRun,
    DeviceError,
    Journal,
    KernelRecord,
    ResultsError,
    Status,
    TorchProblem,
    read_journal,
)
from kernelwright.core.cache import Cache
from kernelwright.core.files import write_whole
from kernelwright.core.keyed_store import KeyedStore
from kernelwright.evaluators.local import LocalEvaluator

from ..cli.commands import SCALE
from ..cli.commands import kernelwright as command
from ..conftest import FAST, SCALE_KERNEL, torch_kernel

RECORD = KernelRecord(digest="a", source="b")
NAMES = {
    "a space": "a kernel.py",
    "a dash": "-k.py",
    "markup": "[red]k.py",
    "a quote": 'it\'s "k".py',
    "a format": "%s {k}.py",
    "a new line": "a\nk.py",
    "control": "\x1b[2Jk.py",
    "other letters": "größe_核.py",
    "no text at all": os.fsdecode(b"\xff\xfek.py"),
    "255 bytes": "k" * 252 + ".py",
}


@pytest.mark.parametrize("name", NAMES)
def test_a_kernel_files_name(kernel_file: Path, name: str) -> None:
    path = kernel_file.with_name(NAMES[name])
    path.write_text(SCALE_KERNEL)
    run = command("evaluate", "--kernel", path, *SCALE, "--dry-run", cwd=kernel_file.parent)
    assert run.returncode == 0, run.stderr
    assert "\x1b" not in run.stdout and "level1/1_999" in run.stdout
    missing = command("evaluate", "--kernel", f"{path}x", *SCALE, "--dry-run", cwd=kernel_file.parent)
    assert missing.returncode == 2 and missing.stderr.startswith("error: ") and "\x1b" not in missing.stderr


@pytest.fixture
def read_only_disk(small_disk: Path) -> Iterator[Path]:
    (small_disk / "kept").write_text("before")
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    yield small_disk
    subprocess.run(["mount", "-o", "remount,rw", str(small_disk)], check=True)


def test_a_disk_that_is_read_only(read_only_disk: Path) -> None:
    for write in (lambda: write_whole(read_only_disk / "new", "x"), lambda: Journal(read_only_disk / "journal.jsonl")):
        with pytest.raises(ResultsError, match="Read-only file system"):
            write()
    assert (read_only_disk / "kept").read_text() == "before"


def test_a_disk_without_room_for_another_name(small_disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,nr_inodes=8", str(small_disk)], check=True)
    path = write_whole(small_disk / "kept", "before")
    for number in range(8):
        try:
            (small_disk / str(number)).touch()
        except OSError:
            break
    with pytest.raises(ResultsError, match="No space left on device"):
        write_whole(path, "after")
    assert path.read_text() == "before"


@pytest.mark.parametrize("deleted", ["working folder", "cache"])
def test_a_folder_that_is_deleted_between_evaluations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scale_problem: TorchProblem, deleted: str
) -> None:
    (here := tmp_path / "here").mkdir()
    monkeypatch.setenv("KERNELWRIGHT_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(here)
    kernel = torch_kernel("return x * self.weight")
    with LocalEvaluator(settings=FAST) as evaluator:
        (before,) = evaluator.evaluate(scale_problem, kernel, [{}])
        gone = {
            "working folder": here,
            "cache": tmp_path / "cache",
        }[deleted]
        shutil.rmtree(gone, ignore_errors=True)
        (after,) = evaluator.evaluate(scale_problem, kernel, [{}])
        monkeypatch.chdir(tmp_path)
    assert before.status is Status.OK, before.message
    assert after.status is Status.OK, after.message


def test_a_temporary_folder_that_something_cleans_is_named(scale_problem: TorchProblem) -> None:
    kernel = torch_kernel("return x * self.weight")
    with LocalEvaluator(settings=FAST) as evaluator:
        list(evaluator.evaluate(scale_problem, kernel, [{}]))
        shutil.rmtree(evaluator.processes.folder, ignore_errors=True)  # its own processes clean up, too
        with pytest.raises(DeviceError, match=r"folder .*kernelwright-.* was deleted during the run; run again"):
            list(evaluator.evaluate(scale_problem, kernel, [{}]))


@pytest.mark.parametrize("at", [0, 2**31 + 5, 2**33])
def test_files_of_1970_and_of_the_future_are_read(tmp_path: Path, at: int) -> None:
    with Journal(tmp_path / "journal.jsonl") as journal:
        journal.append(RECORD)
    cache = Cache(tmp_path / "cache.json", int)
    cache.put("a", 1)
    for path in (tmp_path / "journal.jsonl", tmp_path / "cache.json"):
        os.utime(path, (at, at))
    assert read_journal(tmp_path / "journal.jsonl") == [RECORD]
    assert cache.get("a") == 1
    with Journal(tmp_path / "journal.jsonl") as journal:
        journal.append(RECORD)
        assert journal.records == [RECORD, RECORD]


def test_no_duration_comes_from_a_clock_that_can_be_set() -> None:
    """The age of a reply's file is compared with such a clock, as files have no other."""
    root = Path(kernelwright.__file__).parent
    of_package = [path for path in root.rglob("*.py") if path.relative_to(root).parts[0] not in ("tests", "benchmarks")]
    using = [
        str(path.relative_to(root))
        for path in of_package
        if not path.relative_to(root).parts[0].startswith(".") and re.search(r"\btime\.time\(", path.read_text())
    ]
    assert using == ["agent/models/files.py"]


def test_many_write_one_archive_at_once(tmp_path: Path) -> None:
    def enter(number: int) -> None:
        run = ArchivedRun(run=str(number), problem="b", device="c", backend="triton", tried=())
        Archive(tmp_path / "archive.jsonl").add(run)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(enter, range(40)))
    assert sorted(int(run.run) for run in Archive(tmp_path / "archive.jsonl").read()) == list(range(40))


def test_processes_write_one_store_at_once(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from kernelwright.core.keyed_store import KeyedStore\n"
        "store = KeyedStore(Path(sys.argv[1]), dict, lambda rows, _: rows, 'choose another')\n"
        "[store.update({f'{sys.argv[2]} {number}': number}) for number in range(20)]"
    )
    path = tmp_path / "store.json"
    runs = [subprocess.Popen([sys.executable, "-c", program, str(path), str(number)]) for number in range(3)]
    assert [run.wait(60) for run in runs] == [0, 0, 0]
    assert len(KeyedStore[str, int](path, dict, lambda rows, _: rows, "choose another").read()) == 60
