"""What a sweep has on disk: all results so far in one file, and a journal per shape."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...core import Config, Journal, OptionError, Trial, set_aside
from ...core.files import write_whole
from ..search import SEARCHED
from ..start import Warm
from .outcome import times_of
from .result import ShapeResult
from .shapes import Shape

FILE = "sweep.json"
NEIGHBOURS = 2
"""Shapes whose times a search begins with."""
ALIKE = ("GROUP_SIZE_M", "NUM_STAGES")
"""Of a neighbour's configs that differ in these alone, the fastest counts."""


class Ledger:
    """The results of a sweep; several threads may add to it. `key` says what is tuned."""

    def __init__(self, folder: Path, key: Mapping[str, Any]) -> None:
        self.folder = folder
        self._key = dict(key)
        self._results: dict[Shape, ShapeResult] = {}
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
        """Keep a result, on disk too; return how many there are. Those of other shapes stay in the file."""
        from filelock import FileLock

        self.folder.mkdir(parents=True, exist_ok=True)
        with self._lock, FileLock(self.folder / ".lock", mode=0o666):
            self._results[result.shape] = result
            everything = {**self._on_disk(), **self._results}
            shapes = [everything[shape].to_json() for shape in sorted(everything)]
            document = {"sweep": self._key, "shapes": shapes}
            write_whole(self.folder / FILE, json.dumps(document, indent=1) + "\n")
            return len(self._results)

    def _on_disk(self) -> dict[Shape, ShapeResult]:
        """Return the results of this and of other runs of the same sweep; none where the file is another sweep's."""
        try:
            key, results = self._read()
        except (OSError, ValueError, KeyError, TypeError):
            return {}
        return {one.shape: one for one in results} if key == self._key else {}

    def _read(self) -> tuple[dict[str, Any], list[ShapeResult]]:
        found = json.loads((self.folder / FILE).read_text())
        return dict(found["sweep"]), [ShapeResult.of_json(one) for one in found["shapes"]]

    def journal(self, shape: Shape, resume: bool = True) -> Journal:
        """Open the journal of a shape; without `resume` an earlier one is set aside."""
        path = self.folder / shape.slug / "journal.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        if not resume:
            set_aside(path)
        return Journal(path)

    def warm(self, shape: Shape) -> Warm:
        """Return the neighbours' times, relative to their best."""
        with self._lock:
            near = [one for one in self._results.values() if one.times and one.shape.related(shape)]
        near.sort(key=lambda one: one.shape.distance(shape))
        found: list[tuple[Config, float]] = []
        for one in near[:NEIGHBOURS]:
            kinds: set[Config] = set()
            for config, ms in sorted(one.times.items(), key=lambda item: item[1]):
                kind = Config({name: value for name, value in config.items() if name not in ALIKE})
                if kind not in kinds:
                    found.append((config, ms / min(one.times.values())))
                kinds.add(kind)
        return found

    def recall(self, shapes: Sequence[Shape], trials: int) -> None:
        """Take the results of an earlier run that has no fewer trials.

        A shape that failed is tried again. Raises `OptionError` where the folder has another sweep's results.
        """
        path = self.folder / FILE
        if not path.exists():
            return
        try:
            key, results = self._read()
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise OptionError(f"cannot read {path}: {error}", "leave out `resume`") from None
        if key != self._key:
            differing = ", ".join(name for name in {**key, **self._key} if key.get(name) != self._key.get(name))
            raise OptionError(f"{path} is of another sweep ({differing} differ)", "leave out `resume`")
        for result in results:
            if result.shape in shapes and not result.error and result.trials >= trials:
                with self.journal(result.shape) as journal:
                    evaluations = [one.evaluation for one in journal.of(Trial) if one.origin == SEARCHED]
                self._results[result.shape] = replace(result, times=times_of(evaluations))
