"""What `agent compile` keeps between runs: `results/compile/`, with exchanges and measurements."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ..agent.observing import Observer
from ..agent.workbench import Workbench
from ..core import Journal, ResultsError
from . import wiring

if TYPE_CHECKING:
    from ..agent.compiling.recorded import Recorded


class CompileFolder:
    """A folder of its own: what is tried for practice is no example for later runs to learn from."""

    def __init__(self, results: Path, resume: bool) -> None:
        self.path = results / "compile"
        if self.path.exists() and not resume:
            self._set_aside()

    @property
    def transcript(self) -> Path:
        return self.path / "transcript.jsonl"

    @contextlib.contextmanager
    def workbenches(
        self, evaluators: wiring.Evaluators, observer: Observer
    ) -> Iterator[Callable[[Recorded], Workbench]]:
        """Makes one workbench per problem and sizes, each with a journal of its own."""
        made: dict[str, Workbench] = {}
        with contextlib.ExitStack() as journals:

            def workbench(one: Recorded) -> Workbench:
                key = f"{one.problem.name}_{one.sizes_digest}"
                if key not in made:
                    journal = Journal(self.path / f"journal_{key}.jsonl")
                    journals.callback(journal.close)
                    if not any(journal.of_kind("profile")):
                        journal.append({"kind": "profile", "profile": one.profile.model_dump(mode="json")})
                    made[key] = Workbench(one.problem, evaluators.pool, evaluators.searcher, journal, observer)
                return made[key]

            yield workbench

    def _set_aside(self) -> None:
        """Rename the whole folder; `JournalError` while another compile uses it."""
        Journal(self.transcript).close()
        number = 1
        while (older := self.path.with_name(f"{self.path.name}.{number}")).exists():
            number += 1
        try:
            self.path.rename(older)
        except OSError as error:
            raise ResultsError(f"cannot write {self.path}: {error.strerror}; choose another --results") from None


def require_writable(output: Path) -> None:
    """Raise `ResultsError` now, not after hours of work."""
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=output.parent):
            pass
    except OSError as error:
        raise ResultsError(f"cannot write {output}: {error.strerror}; choose another --output") from None
