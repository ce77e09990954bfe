"""The package of docs/testing.md, as a stranger writes it: installed, its tests pass, and commands know it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from ..surroundings import KERNELWRIGHT
from ..toy_distribution import installed, write_metadata

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"
FILES = dict(re.findall(r"^```\w+ file=(\S+)\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL))


@pytest.fixture
def package(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    write_metadata(tmp_path)
    return tmp_path


def pytest_there(package: Path) -> subprocess.CompletedProcess[str]:
    """Run its tests, without plug-ins and settings of ours."""
    command = [
        sys.executable,
        "-P",
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(package),
        str(package),
    ]
    with installed(package):
        return subprocess.run(command, cwd=package, capture_output=True, text=True, timeout=250, check=False)


def test_its_tests_pass(package: Path) -> None:
    run = pytest_there(package)
    assert run.returncode == 0, run.stdout
    assert int(re.findall(r"(\d+) passed", run.stdout)[0]) > 20


def test_a_tuner_that_asks_twice_fails_them_and_is_explained(package: Path) -> None:
    """Assertions in the suites are explained as in a test's own file."""
    path = package / "shuffled.py"
    path.write_text(path.read_text().replace("            if config not in self.known:\n", "            if True:\n"))
    run = pytest_there(package)
    assert run.returncode == 1
    assert "test_what_an_earlier_run_measured_is_not_asked_for" in run.stdout
    assert "AssertionError: a config is asked for twice" in run.stdout
    assert re.search(r"where \d+ = len\(\[Config", run.stdout), run.stdout


def test_help_lists_it(package: Path) -> None:
    with installed(package):
        command = [*KERNELWRIGHT, "tune", "kernel", "--help"]
        run = subprocess.run(command, cwd=package, capture_output=True, text=True, timeout=250, check=True)
    assert "shuffled (of shuffled 1.0)" in " ".join(run.stdout.replace("│", "").split())
