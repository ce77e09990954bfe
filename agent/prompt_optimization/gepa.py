"""Improves instructions: dspy.GEPA rewrites those of the program, and keeps what is better on recorded problems.

Agrawal et al.: GEPA: Reflective Prompt Evolution Can Outperform Reinforcement Learning, arXiv 2507.19457, 2025.
"""

from __future__ import annotations

import contextlib
import io
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import dspy

from ..models.models import Models
from ..program.signatures import KernelProgram
from .recorded import Kind, RecordedTurn
from .reflection import Reflection
from .rollout import Rollouts, TrialsEndedError, in_daemon

PROPOSALS = {"light": 6, "medium": 12, "heavy": 18}
"""Number of new instructions per budget; names and numbers are GEPA's."""
MINIBATCH = 3
"""Number of situations in which a proposal is tried before validation."""


@dataclass(frozen=True)
class Split:
    """Situations for training and validation."""

    training: tuple[RecordedTurn, ...]
    validation: tuple[RecordedTurn, ...]

    @property
    def minibatch(self) -> int:
        """The number of contexts in which a proposal is tried first."""
        return min(MINIBATCH, len(self.training))

    def evaluations(self, proposals: int) -> int:
        """Number of proposals that the budget allows if each of them is validated."""
        return len(self.validation) + proposals * (2 * self.minibatch + len(self.validation))


def split(situations: Sequence[RecordedTurn], seed: int) -> Split:
    """Split off a third for validation, by problem if there are several, so that no problem is in both parts.

    A single situation serves for both.
    """
    if len(situations) == 1:
        return Split(tuple(situations), tuple(situations))
    groups: dict[str, list[RecordedTurn]] = {}
    for turn in situations:
        groups.setdefault(turn.problem.id, []).append(turn)
    units = list(groups.values()) if len(groups) > 1 else [[situation] for situation in situations]
    random.Random(seed).shuffle(units)
    validation = units.pop()
    while len(units) > 1 and 3 * (len(validation) + len(units[-1])) <= len(situations):
        validation = [*validation, *units.pop()]
    return Split(tuple(item for unit in units for item in unit), tuple(validation))


@dataclass
class OptimizedProgram:
    """Instructions that were tried on all validation situations, in order, starting with the original ones."""

    instructions: list[Mapping[str, str]] = field(default_factory=list)
    """By predictor."""
    scores: list[float] = field(default_factory=list)
    """Means over the validation."""
    proposals: int = 0
    evaluations: int = 0
    stopped: str = ""
    """Why it ended before its budget of evaluations, in words; empty when it did not."""

    @property
    def best(self) -> int:
        """Return the first candidate with the highest score."""
        return max(range(len(self.scores)), key=lambda i: self.scores[i])

    @property
    def improved(self) -> bool:
        """Whether a proposal scored better than the instructions at the start."""
        return bool(self.scores) and self.best > 0

    def program(self, kind: Kind) -> KernelProgram:
        """The program with the best instructions."""
        program = KernelProgram(*kind)
        for name, predictor in program.named_predictors():
            predictor.signature = predictor.signature.with_instructions(self.instructions[self.best][name])
        return program


def compile_program(
    chosen: Split,
    rollouts: Rollouts,
    reflecting: Models,
    evaluations: int,
    seed: int,
    tell: Callable[[str], None],
) -> OptimizedProgram:
    """Improve the program's instructions, with a limit on evaluations.

    All situations are tried in one thread, since nothing may run during a timing. The course is determined by seed and
    replies, so a resumed run continues where an earlier one ended.
    """
    compiled = OptimizedProgram()
    program = rollouts.program()
    gepa = dspy.GEPA(
        metric=_metric,
        max_metric_calls=evaluations,
        reflection_minibatch_size=chosen.minibatch,
        instruction_proposer=Reflection(reflecting, rollouts, program, chosen.training[0].kind),
        component_selector=_next_predictor,
        num_threads=1,
        seed=seed,
        gepa_kwargs={"callbacks": [_GepaCallback(compiled, tell)]},
    )
    student = _GepaProgram(program, rollouts)
    training, validation = (
        [dspy.Example(situation=item.name).with_inputs("situation") for item in part]
        for part in (chosen.training, chosen.validation)
    )
    try:
        with _without_bars():
            in_daemon(lambda: gepa.compile(student, trainset=training, valset=validation), rollouts.given_up)
    except TrialsEndedError:
        if rollouts.error is not None:
            raise rollouts.error from None
        compiled.stopped = rollouts.ended
    return compiled


@contextlib.contextmanager
def _without_bars() -> Iterator[None]:
    """GEPA draws progress bars, and there is no option to leave them out."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield


class _GepaProgram(dspy.Module):
    """The program in a recorded situation, as GEPA calls it."""

    def __init__(self, program: KernelProgram, rollouts: Rollouts) -> None:
        super().__init__()
        self.program = program
        self.rollouts = rollouts

    def forward(self, situation: str) -> dspy.Prediction:
        rollout = self.rollouts.run(self.program.dump_state(), situation)
        return dspy.Prediction(rollout=rollout)


def _metric(
    gold: dspy.Example, pred: dspy.Prediction, trace: Any = None, pred_name: str | None = None, pred_trace: Any = None
) -> Any:
    """The score; with a predictor's name, the page too from which its instructions are improved."""
    rollout = pred.rollout
    if pred_name is None:
        return rollout.score
    return dspy.Prediction(score=rollout.score, feedback=rollout.page(pred_name.removeprefix("program.")))


def _next_predictor(
    state: Any, trajectories: Sequence[Any], scores: Sequence[float], index: int, candidate: Mapping[str, str]
) -> list[str]:
    """GEPA's round robin over predictors, without those that did not run: a correct rewrite is never repaired."""
    ran = {call[0].signature.instructions for trajectory in trajectories for call in trajectory["trace"]}
    names = state.list_of_named_predictors
    turn = state.named_predictor_id_to_update_next_for_program_candidate
    order = [(turn[index] + step) % len(names) for step in range(len(names))]
    chosen = next((number for number in order if candidate[names[number]] in ran), order[0])
    turn[index] = (chosen + 1) % len(names)
    return [names[chosen]]


class _GepaCallback:
    """Follows GEPA through its callbacks, and reports validated candidates."""

    def __init__(self, compiled: OptimizedProgram, tell: Callable[[str], None]) -> None:
        self._compiled = compiled
        self._tell = tell

    def on_valset_evaluated(self, event: Any) -> None:
        compiled = self._compiled
        before = max(compiled.scores, default=None)
        compiled.instructions.append({name.removeprefix("program."): text for name, text in event["candidate"].items()})
        compiled.scores.append(event["average_score"])
        which = f"proposal {compiled.proposals}" if before is not None else "the instructions as they are"
        if len(event["parent_ids"]) > 1:
            which = "two of the best, merged"
        better = "" if before is None else ", the best so far" if compiled.scores[-1] > before else ", no better"
        self._tell(f"{which}: {compiled.scores[-1]:.3f} on the validation{better}")

    def on_proposal_end(self, event: Any) -> None:
        self._compiled.proposals += 1
        parts = ", ".join(name.removeprefix("program.").partition(".")[0] for name in event["new_instructions"])
        self._tell(f"proposal {self._compiled.proposals}: new instructions to {parts}")

    def on_candidate_rejected(self, event: Any) -> None:
        self._tell(
            f"proposal {self._compiled.proposals}: {event['new_score']:.2f} after {event['old_score']:.2f} in the "
            "same situations, left"
        )

    def on_budget_updated(self, event: Any) -> None:
        self._compiled.evaluations = event["metric_calls_used"]
