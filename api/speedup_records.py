"""What listings measured before, on disk at once: an interrupted one goes on where it stopped."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ..core import KernelwrightError, TorchProblem
from ..core.json_lines import JsonLines
from .devices import device_label
from .options.optimize import ListSlowOptions
from .options.trust import TimingOptions

VERSION = "3"
"""Of the way in which is measured: records of another one do not count."""
_FAILED = "failed"


Measure = Callable[[], tuple[dict[str, Any], dict[str, str]]]
"""Returns metrics and environment; raises `KernelwrightError` where nothing can be measured."""


class Records(JsonLines):
    """Metrics measured before, by device, versions, problem, sizes, kernel source and how strictly it was checked."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "set KERNELWRIGHT_CACHE to another folder")
        self._known = self.replay()

    def find_or_measure(
        self, key: Mapping[str, str], options: ListSlowOptions, measure: Measure
    ) -> dict[str, Any] | str:
        """The record with this key, measured now where there is none; or why there is none.

        A disturbed record is kept too, or a busy machine would measure for minutes at every call; `again` measures it
        once more. `resume` takes a failure from its record, too.
        """
        if options.resume and (reason := self._failure(key)) is not None:
            return reason
        known = self.find(key)
        if known is None or (options.again and known.get("contention") is not None):
            try:
                self.add(key, *measure())
            except KernelwrightError as error:
                self._write({"key": dict(key), _FAILED: str(error)})
                return str(error)
            known = self.find(key)
            assert known is not None
        return known

    def find(self, key: Mapping[str, str]) -> dict[str, Any] | None:
        """The newest record with this key, one that nothing disturbed before one that something did."""
        found = [record for record in self._of(key) if _FAILED not in record]
        quiet = [record for record in found if record.get("contention") is None]
        return next(reversed(quiet or found), None)

    def _failure(self, key: Mapping[str, str]) -> str | None:
        """Why the last attempt with this key failed; None where it did not."""
        found = self._of(key)
        reason: str | None = found[-1].get(_FAILED) if found else None
        return reason

    def add(self, key: Mapping[str, str], metrics: Mapping[str, Any], environment: Mapping[str, str]) -> None:
        """Remember a measurement."""
        self._write({"key": dict(key), **metrics, "environment": dict(environment)})

    def _of(self, key: Mapping[str, str]) -> list[dict[str, Any]]:
        return [record for record in self._known if record.get("key") == key]

    def _write(self, record: dict[str, Any]) -> None:
        self.append(record)
        self._known.append(record)


def problem_key(problem: TorchProblem, device: str, timing: TimingOptions) -> dict[str, str]:
    """What the times of a reference depend on."""
    return {
        "version": VERSION,
        "device": device_label(device),
        "torch": version("torch"),
        "problem": problem.id,
        "reference": problem.digest,
        "sizes": problem.sizes_key,
        "graph": str(timing.graph),
        "precision": timing.precision.value,
    }
