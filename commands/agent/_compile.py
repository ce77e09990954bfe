"""Parts of `agent compile`: its files between runs in `results/compile/`, and the situations that it uses."""

from __future__ import annotations

import contextlib
import io
import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ...agent.workbench import Workbench
from ...core import Journal, OptionError, ProfileRecord, ResultsError, set_aside
from ...core.events import Emit
from ...runtime.evaluators import Evaluators

if TYPE_CHECKING:
    from ...agent.prompt_optimization.gepa import Split
    from ...agent.prompt_optimization.recorded import RecordedTurn
    from ...agent.prompt_optimization.rollout import Rollouts

Tell = Callable[[str], None]


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

            def workbench(turn: RecordedTurn) -> Workbench:
                key = f"{turn.problem.name}_{turn.sizes_digest}"
                if key not in made:
                    journal = Journal(self.path / f"journal_{key}.jsonl")
                    journals.callback(journal.close)
                    if not any(journal.of(ProfileRecord)):
                        journal.append(ProfileRecord(profile=turn.profile))
                    made[key] = Workbench(turn.problem, evaluators.pool, evaluators.searcher, journal, emit)
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


def begun(situations: list[RecordedTurn], rollouts: Rollouts, tell: Tell) -> list[RecordedTurn]:
    """Return the contexts whose kernel is correct and timed here and now."""
    begun = []
    for situation in situations:
        why = rollouts.begin(situation)
        if why is None:
            begun.append(situation)
        else:
            tell(f"left out: {situation.name}: {why}")
    if not begun:
        raise OptionError("none of the recorded kernels is correct and timed on this device: there is no training data")
    return begun


def announce(chosen: Split, evaluations: int, tell: Tell) -> None:
    """Tell which situations are for training and for validation, and how much work there will be."""
    if chosen.training == chosen.validation:
        tell("a single situation is used for training and for validation: the result may fit it only")
    for part, members in (("training", chosen.training), ("validation", chosen.validation)):
        tell(f"{part}: {', '.join(member.name for member in members)}")
    tell(f"at most about {evaluations} runs of the program")


@contextlib.contextmanager
def without_bars() -> Iterator[None]:
    """GEPA draws progress bars, and there is no option to leave them out."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield
