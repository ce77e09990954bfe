"""The files of `compile_program` between runs: `results/compile/`, with exchanges and measurements."""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ..agent.workbench import Workbench
from ..core import Journal, ProfileRecord, ResultsError, set_aside
from ..core.events import Emit
from .evaluators import Evaluators

if TYPE_CHECKING:
    from ..agent.prompt_optimization.recorded import RecordedTurn


class CompileFolder:
    """A separate folder: its kernels must not become examples for later runs."""

    def __init__(self, results: Path, resume: bool) -> None:
        self.path = results / "compile"
        if self.path.exists() and not resume:
            self._set_aside()

    @property
    def transcript(self) -> Path:
        """The exchanges with models."""
        return self.path / "transcript.jsonl"

    @contextlib.contextmanager
    def workbenches(self, evaluators: Evaluators, emit: Emit) -> Iterator[Callable[[RecordedTurn], Workbench]]:
        """Makes one workbench per problem and sizes, each with a journal of its own."""
        made: dict[str, Workbench] = {}
        with contextlib.ExitStack() as journals:

            def workbench(one: RecordedTurn) -> Workbench:
                key = f"{one.problem.name}_{one.sizes_digest}"
                if key not in made:
                    journal = Journal(self.path / f"journal_{key}.jsonl")
                    journals.callback(journal.close)
                    if not any(journal.of(ProfileRecord)):
                        journal.append(ProfileRecord(profile=one.profile))
                    made[key] = Workbench(one.problem, evaluators.pool, evaluators.searcher, journal, emit)
                return made[key]

            yield workbench

    def _set_aside(self) -> None:
        """Rename all journals, corrupt ones too; `JournalError` while another compile uses them."""
        present = [path for path in self.path.glob("*.jsonl") if not re.search(r"\.\d+$", path.stem)]
        try:
            set_aside(self.transcript, *(path for path in present if path != self.transcript))
        except OSError as error:
            raise ResultsError(f"cannot write {self.path}: {error.strerror}", "choose another `results`") from None


def require_writable(output: Path) -> None:
    """Raise `ResultsError` now, not after hours of work."""
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=output.parent):
            pass
    except OSError as error:
        raise ResultsError(f"cannot write {output}: {error.strerror}", "choose another `output`") from None
