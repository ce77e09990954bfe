"""A lane's view of the workbench: its evaluations, searches and tool calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ..core import Budget, Config, Evaluation, Kernel, ToolCall
from ..core.turn_record import SkippedRule
from ..core.workload_rows import loses
from ..tuners.search import Found
from .searches import Variant, WantedSearch
from .turn import Candidate, fastest

if TYPE_CHECKING:
    from .workbench import Workbench


class Lane:
    """One conversation with the workbench: its evaluations and tool calls.

    Its decisions must not depend on the progress of parallel lanes, or a resumed run would take another way. So what
    other lanes have measured meanwhile is not measured again, but counts as a trial of this lane too.
    """

    def __init__(
        self,
        workbench: Workbench,
        number: int,
        index: int,
        late: Callable[[], str | None],
        left: Callable[[], Budget] = Budget,
    ) -> None:
        """The set before any lane of the same turn starts."""
        self.workbench = workbench
        self.number = number
        self.index = index
        self.late = late
        """Returns the limit of the run that is reached, or None."""
        self._left = left
        self.trials = 0
        """Evaluations that were unknown when the lane started."""
        self.tried: list[Candidate] = []
        """Correct and timed candidates."""
        self.tool_calls: list[ToolCall] = []
        self.skipped_rules: list[SkippedRule] = []
        """Rules that made no change of the turn's kernel, and why."""
        self.last: tuple[Kernel, Evaluation] | None = None
        """The latest evaluation, for a tool that explains its failure."""
        self._known = workbench.measured()

    @property
    def name(self) -> str:
        """'3.0': the third turn, its first expansion."""
        return f"{self.number}.{self.index}"

    def evaluate(self, kernel: Kernel, config: Config, strategy: str) -> Evaluation:
        """Return a full evaluation of one config."""
        evaluation = self._evaluate(kernel, config, strategy)
        self.last = kernel.bind(config), evaluation
        self._note(kernel, [evaluation])
        return evaluation

    def screen(self, variants: Sequence[Variant], strategies: Sequence[str]) -> list[Evaluation]:
        """See `Searches.screen`."""
        origins = [self._origin(strategy) for strategy in strategies]
        found = self.workbench.searches.screen(variants, origins, self.late)
        self.trials += len(found)
        return found

    def tune(self, wanted: WantedSearch, strategy: str | None = None) -> Found:
        """See `Searches.tune`; it gets at most the run's time and trials that are left."""
        left = self._left()
        limits = [limit for limit in (wanted.seconds, left.seconds) if limit is not None]
        limited = replace(wanted, seconds=min(limits, default=None), left=left.trials)
        found = self.workbench.searches.tune(limited, self._origin(strategy or f"tune with {wanted.tuner}"))
        self.trials += 0 if wanted.name in self._known else found.progress.trials
        self._known.add(wanted.name)
        self._note(wanted.kernel, found.finals)
        return found

    def _evaluate(self, kernel: Kernel, config: Config, strategy: str) -> Evaluation:
        evaluation = self.workbench.evaluate(kernel, config, self._origin(strategy))
        bound = kernel.bind(config).digest
        self.trials += bound not in self._known
        self._known.add(bound)
        return evaluation

    def _origin(self, strategy: str) -> str:
        """Return the journal's name for this lane's evaluations."""
        lane = f".{self.index}" if self.index else ""
        return f"turn {self.number}{lane}: {strategy}"

    def _note(self, kernel: Kernel, evaluations: Sequence[Evaluation]) -> None:
        best = fastest(
            kernel, tuple(evaluation for evaluation in evaluations if loses(evaluation, self.workbench.start) is None)
        )
        if best is not None:
            self.tried.append(best)
