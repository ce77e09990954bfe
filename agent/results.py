"""The files that a run leaves: the optimized kernel, the history, the journal."""

from __future__ import annotations

import contextlib
import glob
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ..core import Evaluation, JournalError, Kernel, Problem, ResultsError, RunRecord, is_own, read_journal, set_aside
from ..core.evidence import with_evidence
from ..core.files import write_whole
from ..core.journal import numbered
from .history.records import LOGS, conversation_text
from .searches import TUNING
from .turn import Turn


class Results:
    """A results folder: `level2/2_10_optimized_1.234x_triton.py`, and histories and journals in multiturn_logs/.

    TileLang on CUDA is the default backend for kernels and histories that name none.

    Raises `ResultsError` when the folder cannot be written.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.logs = root / LOGS
        try:
            self.logs.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.logs) as probe:
                probe.write(b"\0" * 4096)
        except OSError as error:
            raise ResultsError(
                f"cannot write results folder {root}: {error.strerror}; choose another one with `results`"
            ) from None

    def journal_path(self, problem: Problem, backend: str) -> Path:
        """Where the run of a problem keeps its journal."""
        return self.logs / f"journal_{problem.name}_{backend}.jsonl"

    def transcript_path(self, problem: Problem, backend: str) -> Path:
        """Where the run of a problem keeps its exchanges with models."""
        return self.logs / f"transcript_{problem.name}_{backend}.jsonl"

    def first_kernel_path(self, problem: Problem, backend: str) -> Path:
        """Where the kernel is kept that was made for a problem without one."""
        return self.logs / f"first_kernel_{problem.name}_{backend}.py"

    def history_path(self, problem: Problem, backend: str) -> Path:
        """Where the turns of a problem's run are kept."""
        return self.logs / f"optimization_history_{problem.name}{_suffix(backend)}.json"

    def conversation_path(self, problem: Problem, backend: str) -> Path:
        """Where the exchanges of a problem's run are kept as text."""
        return self.logs / f"dspy_history_{problem.name}_{backend}.txt"

    def set_aside(self, problem: Problem, backend: str) -> None:
        """Rename the files of an earlier run of the problem, which may be that of another kernel."""
        set_aside(*self._to_resume(problem, backend), *self._to_read(problem, backend))

    def bring_back(self, problem: Problem, backend: str, run: RunRecord) -> None:
        """Let a run that was set aside be the one that is resumed, where the last one is another: that of another
        kernel of the problem, which is set aside instead. Nothing changes where no file is of this run."""
        journal = self.journal_path(problem, backend)
        if not journal.exists() or _is_of(journal, run):
            return
        for earlier in self.logs.glob(f"{glob.escape(journal.stem)}.*.jsonl"):
            number = earlier.stem.removeprefix(f"{journal.stem}.")
            if number.isdecimal() and _is_of(earlier, run):
                self.set_aside(problem, backend)
                searches = self.logs.glob(f"{glob.escape(journal.stem)}{TUNING}*.{number}.jsonl")
                others = (self.transcript_path(problem, backend), *self._to_read(problem, backend))
                present = [path for path in (numbered(other, number) for other in others) if path.exists()]
                for path in (*searches, *present, earlier):
                    path.rename(path.with_name(f"{path.name.removesuffix(f'.{number}{path.suffix}')}{path.suffix}"))
                return

    def resumes_own(self, problem: Problem, backend: str) -> bool:
        """Return whether this user wrote all files that a resumed run continues, so that it may sign its own."""
        journal, *others = self._to_resume(problem, backend)
        present = [path for path in (journal, *others) if path.exists()]
        if not journal.exists() and (present or self.first_kernel_path(problem, backend).exists()):
            return False
        return all(map(is_own, present))

    def _to_resume(self, problem: Problem, backend: str) -> list[Path]:
        """The journal, which may be missing, the transcript, and the journals of searches."""
        journal = self.journal_path(problem, backend)
        searches = self.logs.glob(f"{glob.escape(journal.stem)}{TUNING}*.jsonl")
        return [
            journal,
            self.transcript_path(problem, backend),
            *(path for path in searches if "." not in path.stem),
        ]

    def _to_read(self, problem: Problem, backend: str) -> list[Path]:
        """What is made of the journal and the transcript for people."""
        return [self.history_path(problem, backend), self.conversation_path(problem, backend)]

    def save_kernel(self, problem: Problem, backend: str, kernel: Kernel, best: Evaluation, start: Evaluation) -> Path:
        """Write the kernel with the evidence in its header; the file's name has the speedup and the backend."""
        assert best.speedup is not None
        level, short = problem.id.rsplit("/", 1) if "/" in problem.id else ("", problem.id)
        # A speedup that other processes disturbed is nothing to put a name on.
        figure = f"{best.speedup.ratio:.3f}x" if best.contention is None else "disturbed"
        path = self.root / level / f"{short}_optimized_{figure}{_suffix(backend)}.py"
        return self._write(path, with_evidence(kernel.source, problem, best, start))

    def save_history(self, problem: Problem, backend: str, turns: Sequence[Turn]) -> Path:
        """Write one JSON object per turn."""
        records = [turn.record().model_dump(mode="json", by_alias=True, exclude={"kind"}) for turn in turns]
        return self._write(self.history_path(problem, backend), json.dumps(records, indent=2) + "\n")

    def save_conversation(self, problem: Problem, backend: str) -> Path | None:
        """Write all exchanges with models as text, if there were any."""
        transcript = self.transcript_path(problem, backend)
        path = self.conversation_path(problem, backend)
        return self._write(path, conversation_text(read_journal(transcript))) if transcript.exists() else None

    def _write(self, path: Path, text: str) -> Path:
        return write_whole(path, text, "choose another folder with `results` and `resume`")


def _is_of(path: Path, run: RunRecord) -> bool:
    """Return whether a journal is of a run; one that cannot be read is of none."""
    with contextlib.suppress(JournalError):
        known = next((record for record in read_journal(path) if isinstance(record, RunRecord)), None)
        return known is not None and not known.changed(run)
    return False


def _suffix(backend: str) -> str:
    """Return the end of the name of a kernel's or a history's file, so that backends do not overwrite each other's."""
    return "" if backend == "tilelang" else f"_{backend}"
