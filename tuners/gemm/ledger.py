"""The files of a sweep: all results so far in one file, and a journal and a kernel per shape."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...core import Config, Journal, OptionError, Trial, set_aside
from ...core.files import write_whole
from ...core.keyed_store import KeyedStore
from ..search import SEARCHED
from ..start import Warm
from .outcome import times_of
from .result import ShapeResult
from .shapes import Shape

FILE = "sweep.json"
KERNEL = "kernel.py"
"""The chosen kernel of a shape, with the evidence of its measurement."""
NEIGHBOURS = 2
"""Shapes whose times a search begins with."""
ALIKE = ("GROUP_SIZE_M", "NUM_STAGES")
"""Among configs of a neighbour that differ only in these fields, the fastest one counts."""


class Ledger:
    """The results of a sweep, to which several threads may add. `key` identifies the task."""

    def __init__(self, folder: Path, key: Mapping[str, Any]) -> None:
        self.folder = folder
        self._key = dict(key)
        self._results: dict[Shape, ShapeResult] = {}
        self._store = KeyedStore(
            folder / FILE, self._parsed, self._document, "choose another folder", replaces_damaged=True
        )
        self._lock = threading.Lock()

    @property
    def results(self) -> list[ShapeResult]:
        """The results so far, by N, K and M."""
        return [self._results[shape] for shape in sorted(self._results)]

    def __contains__(self, shape: object) -> bool:
        return shape in self._results

    def __getitem__(self, shape: Shape) -> ShapeResult:
        return self._results[shape]

    def add(self, result: ShapeResult) -> int:
        """Store a result and return the number of results. Results of other shapes stay in the file."""
        with self._lock:
            self._results[result.shape] = result
            self._store.update(self._results)
            return len(self._results)

    def _parsed(self, document: Any) -> dict[Shape, ShapeResult]:
        """Return the results of this and of other runs of the same sweep."""
        key = dict(document["sweep"])
        if key != self._key:
            differing = ", ".join(name for name in {**key, **self._key} if key.get(name) != self._key.get(name))
            raise OptionError(f"{self._store.path} is of another sweep ({differing} differ)", "leave out `resume`")
        results = map(ShapeResult.of_json, document["shapes"])
        return {result.shape: result for result in results}

    def _document(self, results: dict[Shape, ShapeResult], before: Any) -> dict[str, Any]:
        return {"sweep": self._key, "shapes": [results[shape].to_json() for shape in sorted(results)]}

    def journal(self, shape: Shape, resume: bool = True) -> Journal:
        """Open the journal of a shape; without `resume` an earlier one is set aside."""
        path = self.folder / shape.slug / "journal.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        if not resume:
            set_aside(path)
        return Journal(path)

    def write_kernel(self, shape: Shape, source: str | None) -> None:
        """Write the kernel of a shape beside its journal, or remove that of an earlier search if there is none."""
        path = self.folder / shape.slug / KERNEL
        if source is None:
            path.unlink(missing_ok=True)
        else:
            write_whole(path, source)

    def warm(self, shape: Shape) -> Warm:
        """Return the neighbours' times, relative to their best."""
        with self._lock:
            near = [result for result in self._results.values() if result.times and result.shape.related(shape)]
        near.sort(key=lambda result: result.shape.distance(shape))
        found: list[tuple[Config, float]] = []
        for result in near[:NEIGHBOURS]:
            kinds: set[Config] = set()
            for config, ms in sorted(result.times.items(), key=lambda item: item[1]):
                kind = Config({name: value for name, value in config.items() if name not in ALIKE})
                if kind not in kinds:
                    found.append((config, ms / min(result.times.values())))
                kinds.add(kind)
        return found

    def recall(self, shapes: Sequence[Shape], trials: int) -> None:
        """Take the results of an earlier run that has no fewer trials.

        A shape that failed is tried again. Raises `OptionError` if the folder has another sweep's results.
        """
        try:
            results = self._store.read()
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise OptionError(f"cannot read {self._store.path}: {error}", "leave out `resume`") from None
        for result in results.values():
            if result.shape in shapes and not result.error and result.trials >= trials:
                with self.journal(result.shape) as journal:
                    evaluations = [item.evaluation for item in journal.of(Trial) if item.origin == SEARCHED]
                self._results[result.shape] = replace(result, times=times_of(evaluations))
