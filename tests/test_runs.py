"""What a run's workers get, and how a run goes on that was broken off."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from . import runs

CONFTEST = f"""
import importlib.util

spec = importlib.util.spec_from_file_location("runs", {runs.__file__!r})
runs = importlib.util.module_from_spec(spec)
spec.loader.exec_module(runs)


def pytest_addoption(parser):
    parser.addoption("--passed")


def pytest_configure(config):
    config.pluginmanager.register(runs.Passed(config))
"""
TESTS = """
import pathlib
import pytest


@pytest.mark.parametrize("name", ["a", "b c"])
def test_right(name):
    pass


@pytest.fixture
def ending():
    yield
    assert pathlib.Path("repaired").exists()


def test_wrong():
    assert pathlib.Path("repaired").exists()


def test_wrong_at_its_end(ending):
    pass
"""


@pytest.mark.parametrize("workers", [1, 3, 8])
def test_each_worker_begins_with_its_share_of_the_long_tests(workers: int) -> None:
    long, others = [f"long {number}" for number in range(17)], [f"short {number}" for number in range(60)]
    left = runs.dealt(long, others, workers)
    assert sorted(left) == sorted([*long, *others])
    for remaining in range(workers, 0, -1):  # as `worksteal` does
        part, left = left[: len(left) // remaining], left[len(left) // remaining :]
        first = [name.startswith("long") for name in part]
        assert first == sorted(first, reverse=True)
        assert 17 // workers <= sum(first) <= 17 // workers + 1


def test_more_long_tests_than_a_part_holds_are_dealt_too() -> None:
    assert sorted(runs.dealt("abc", "d", 3)) == ["a", "b", "c", "d"]


def run(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run pytest with xdist and no other plugin, of which some take seconds to import."""
    command = [sys.executable, "-m", "pytest", "-p", "xdist", "-p", "no:cacheprovider", "--passed", "done/passed.txt"]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(
        [*command, *options], cwd=folder, env=environment, capture_output=True, text=True, timeout=120
    )


def test_a_run_goes_on_with_what_did_not_pass(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_these.py").write_text(TESTS)
    first = run(tmp_path, "-n", "2")
    assert first.returncode == pytest.ExitCode.TESTS_FAILED, first.stdout + first.stderr
    passed = (tmp_path / "done" / "passed.txt").read_text().splitlines()
    assert sorted(passed) == ["test_these.py::test_right[a]", "test_these.py::test_right[b c]"]
    failed = (tmp_path / "done" / "passed.txt.failed.txt").read_text()
    assert "test_these.py::test_wrong (call, 0 s)\n" in failed
    assert "test_these.py::test_wrong_at_its_end (teardown, 0 s)\n" in failed
    assert failed.count('assert pathlib.Path("repaired").exists()') == 2
    (tmp_path / "repaired").touch()
    second = run(tmp_path)
    assert second.returncode == pytest.ExitCode.OK
    assert "2 passed, 2 deselected" in second.stdout
    assert not (tmp_path / "done" / "passed.txt.failed.txt").exists()
    third = run(tmp_path, "-n", "1")
    assert third.returncode == pytest.ExitCode.OK
    assert "no tests ran" in third.stdout


def test_files_without_a_test_for_a_gpu_are_not_imported(tmp_path: Path) -> None:
    file = tmp_path / "test_it.py"
    file.write_text("import pytest\n\n\n@pytest.mark.gpu\ndef test_it() -> None: ...\n")
    assert not runs.has_no_gpu_test(file)
    file.write_text("def test_it() -> None: ...\n")
    assert runs.has_no_gpu_test(file)
    assert not runs.has_no_gpu_test(tmp_path)
