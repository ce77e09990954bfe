"""The files that `agent compile` keeps between runs, in `results/compile/`."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from ...core import Evaluator, Journal, ProfileRecord, ResultsError, Screener, set_aside
from ...core.events import Emit
from ..workbench import Workbench
from .recorded import RecordedTurn


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
    def workbenches(
        self, pool: Sequence[Evaluator], searcher: Callable[[Evaluator], Screener], emit: Emit
    ) -> Iterator[Callable[[RecordedTurn], Workbench]]:
        """Make one workbench per problem and sizes, each with its own journal."""
        made: dict[str, Workbench] = {}
        with contextlib.ExitStack() as journals:

            def workbench(turn: RecordedTurn) -> Workbench:
                key = f"{turn.problem.name}_{turn.sizes_digest}"
                if key not in made:
                    journal = Journal(self.path / f"journal_{key}.jsonl")
                    journals.callback(journal.close)
                    if not any(journal.of(ProfileRecord)):
                        journal.append(ProfileRecord(profile=turn.profile))
                    made[key] = Workbench(turn.problem, pool, searcher, journal, emit)
                return made[key]

            yield workbench

    def _set_aside(self) -> None:
        """Rename all journals, corrupt ones too; `JournalError` while another compile uses them."""
        present = [path for path in self.path.glob("*.jsonl") if not re.search(r"\.\d+$", path.stem)]
        try:
            set_aside(self.transcript, *(path for path in present if path != self.transcript))
        except OSError as error:
            raise ResultsError(f"cannot write {self.path}: {error.strerror}", "choose another `results`") from None
