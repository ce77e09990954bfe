"""Which tests the workers of a run get, and how a run that was broken off goes on."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest

T = TypeVar("T")
GPU = ("gpu", "gpu and not gpu_alone", "gpu_alone")
"""What -m says where only tests that need a GPU are wanted."""


def has_no_gpu_test(path: Path) -> bool:
    """Whether a path is a file of tests that need no GPU."""
    return path.suffix == ".py" and "mark.gpu" not in path.read_text()


class LongFirst:
    """Tests with a time limit of their own may take long, and no worker of a run is to wait for one at its end."""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Of the tests that are left: others are deselected by now."""
        long = sorted(filter(_time_limit, items), key=_time_limit, reverse=True)
        others = [item for item in items if not _time_limit(item)]
        items[:] = dealt(long, others, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))


def _time_limit(item: pytest.Item) -> float:
    """A test's own one in seconds."""
    marker = item.get_closest_marker("timeout")
    return float(marker.args[0]) if marker is not None else 0.0


def dealt(long: Sequence[T], others: Sequence[T], workers: int) -> list[T]:
    """All tests in the order in which xdist's `worksteal` gives each worker one part, as many long ones first in each.

    What is stolen later is the end of a part, where none of the long ones is. The others stay in order, so that those
    of one file mostly have the same worker.
    """
    found: list[T] = []
    left = list(others)
    for number in range(workers):
        size = (len(long) + len(others) - len(found)) // (workers - number)
        mine = long[number::workers]
        count = max(0, size - len(mine))
        found += [*mine, *left[:count]]
        del left[:count]
    return found + left


class Passed:
    """Leaves out the tests that a file names, and writes those to it that pass; beside it, what others failed with.

    pytest prints tracebacks at the end of a run, which one that is broken off does not reach.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._file = None if hasattr(config, "workerinput") else Path(config.option.passed)
        if self._file is None:
            self._before: list[str] = config.workerinput["passed"]  # type: ignore[attr-defined]
        else:
            self._before = self._file.read_text().splitlines() if self._file.exists() else []
            self._failures.unlink(missing_ok=True)
        self._called: set[str] = set()

    @property
    def _failures(self) -> Path:
        assert self._file is not None
        return self._file.with_name(f"{self._file.name}.failed.txt")

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """All workers leave out the same tests, even one that takes the place of another later."""
        node.workerinput["passed"] = self._before

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        before = set(self._before)
        if passed := [item for item in items if item.nodeid in before]:
            config.hook.pytest_deselected(items=passed)
            items[:] = [item for item in items if item.nodeid not in before]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if self._file is None or report.skipped:
            return
        if report.failed:
            text = f"{report.nodeid} ({report.when}, {report.duration:.0f} s)\n{report.longreprtext}\n\n"
            _append(self._failures, text)
        elif report.when == "call":
            self._called.add(report.nodeid)
        elif report.when == "teardown" and report.nodeid in self._called:
            _append(self._file, report.nodeid + "\n")

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Where all have passed before, none is left, which is no failure."""
        if self._before and exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
            session.exitstatus = pytest.ExitCode.OK


def _append(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(text)
