"""Improve the instructions with dspy.GEPA: try them on recorded problems, rewrite them, keep what measures better.

'kernelwright optimize --program FILE' uses the saved instructions.

Exit codes: 0 better instructions are saved, 1 none were better, 2 wrong usage, 75 waiting for a reply (--no-wait).
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from ...agent.models.choice import DEFAULT, DEFAULT_KEY, choose, parse
from ...core import Budget, ModelError, OptionError, ProblemError, ResultsError, TorchProblem
from ...core.budget import Deadline
from ...core.events import Emit, ignore, notes
from ...core.extras import require_extra
from ...core.files import own_examples
from ...corpus import find_problem
from ...runtime import command, result
from ...runtime.archive import EarlierRuns, Examples
from ...runtime.devices import device_label
from ...runtime.evaluators import Evaluators, machine
from ...runtime.jobs import Job
from ...runtime.options.groups import (
    BUDGET,
    MODEL,
    OUTPUT,
    WHERE,
    Backend,
    BudgetOptions,
    DeviceOptions,
    ModelOptions,
    ResultOptions,
)
from ...runtime.options.option import described, option
from ...runtime.options.trust import QuickOptions, TimingOptions
from ...runtime.proposers import RAG_K, quiet_libraries
from ...runtime.runtime import Runtime

if TYPE_CHECKING:
    from ...agent.models.models import ModelSettings
    from ...agent.prompt_optimization.gepa import OptimizedProgram, Split
    from ...agent.prompt_optimization.recorded import RecordedTurn
else:  # with it comes dspy
    OptimizedProgram = Any

EXAMPLES = (
    "agent compile results --budget medium --output program.json",
    "optimize 2_10 --program program.json",
)
POSITIONAL = ("recorded",)
Tell = Callable[[str], None]


class Size(StrEnum):
    """Budget of new instructions to try."""

    LIGHT = "light"
    MEDIUM = "medium"
    HEAVY = "heavy"


@dataclass(frozen=True, kw_only=True)
class Options(ResultOptions, BudgetOptions, ModelOptions, QuickOptions, DeviceOptions):
    """Improve the instructions that language models follow."""

    recorded: tuple[Path, ...] = field(
        kw_only=False, metadata=described("Results folders of earlier runs, or their journals.", metavar="RESULTS...")
    )
    model: str | None = option(
        None,
        "The model that follows the instructions: openai/o3 or any provider/name, replay:FILE, files:DIR. By default "
        "openai/o3 if OPENAI_API_KEY is set.",
        MODEL,
        trusted=True,
    )
    reflection_model: str | None = option(
        None, "The model that improves them; by default the same.", MODEL, trusted=True
    )
    budget: Size = option(
        Size.LIGHT, "How many new instructions to try: light 6, medium 12, heavy 18.", BUDGET, trusted=True
    )
    max_evaluations: int | None = option(
        None,
        "Overrides the budget: about this many runs of the program, each in one situation.",
        BUDGET,
        above=0,
        advice="give more, or leave it out",
        trusted=True,
    )
    time_limit: float | None = option(
        None,
        "Stop requests to models after this many seconds.",
        BUDGET,
        above=0,
        advice="give more, or leave it out",
        trusted=True,
    )
    seed: int = option(0, "Random seed of GEPA and of the choice of validation situations.", BUDGET)
    backend: Backend | None = option(None, "Backend of the instructions; by default the most frequent one.", WHERE)
    problem: tuple[Path, ...] = option((), "A problem file that is not shipped; may be repeated.", WHERE, trusted=True)
    dataset: Path | None = option(None, "A KernelBench checkout to take the problems from.", WHERE, trusted=True)
    output: Path = option(Path("program.json"), "File for the program.", OUTPUT)

    def check(self) -> None:
        """Raise `OptionError` for an impossible output."""
        super().check()
        if self.output.is_dir():
            raise OptionError(f"`output` {self.output} is a folder", "name a file in it, such as program.json")


@dataclass(frozen=True)
class Plan(command.Plan):
    """The situations for trials, and the models that follow and improve the instructions."""

    following: ModelSettings = field(metadata=command.NOT_SHOWN)
    """Settings of the model that follows the instructions."""
    improving: ModelSettings = field(metadata=command.NOT_SHOWN)
    device: str
    situations: list[RecordedTurn] = field(metadata=command.NOT_SHOWN)
    output: Path
    results: Path
    resume: bool
    budget: Size
    max_evaluations: int | None
    seed: int
    time_limit: float | None
    open_evaluators: Callable[[], Evaluators] = field(metadata=command.NOT_SHOWN)

    def to_json(self) -> dict[str, Any]:
        """The plan with the models and the situations."""
        models = {"model": self.following.rewriting.name, "reflection_model": self.improving.rewriting.name}
        return {**models, **super().to_json(), "situations": [item.name for item in self.situations]}


class Result(result.Result):
    """The tried instructions, and the better ones if there are any."""

    inlined: ClassVar = ("found",)
    found: Mapping[str, Any]
    """Metadata of the saved program: language, target, device, models, seed, situations, scores, proposals and
    evaluations."""
    optimized: result.ForPython[OptimizedProgram]
    output: result.ForPython[Path]
    """File of the program, if it is better."""
    spent: result.ForPython[Budget]
    """Tokens and dollars of all exchanges with models."""

    @property
    def improved(self) -> bool:
        """Whether better instructions are saved."""
        improved: bool = self.optimized.improved
        return improved

    @result.computed
    def stopped(self) -> str:
        """Why it ended early."""
        stopped: str = self.optimized.stopped
        return stopped

    @result.computed
    def tokens(self) -> int | None:
        """Of all exchanges with models."""
        return self.spent.tokens

    @result.computed
    def dollars(self) -> float | None:
        """Of all exchanges with models."""
        return self.spent.dollars

    @result.computed
    def program(self) -> Path | None:
        """The file of the better instructions."""
        return self.output if self.improved else None

    @property
    def exit_code(self) -> int:
        """1 if no instructions were better."""
        return 0 if self.improved else 1

    def lines(self) -> Iterator[str]:
        """The scores, and the file."""
        tried = self.optimized
        if tried.stopped:
            yield f"stopped: {tried.stopped}"
        work = f"{tried.proposals} proposals, {tried.evaluations} runs"
        if not tried.scores:
            yield "no program: it ended before the current instructions were tried in full"
        elif tried.improved:
            yield f"validation: {tried.scores[0]:.3f} -> {tried.scores[tried.best]:.3f} ({work})"
            yield f"program: {self.output}"
        else:
            yield f"none better than the current instructions, {tried.scores[0]:.3f} ({work}): no program written"


def plan(options: Options, runtime: Runtime) -> Plan:
    """Choose the models and the situations for trials."""
    require_extra("improving instructions", "dspy", "llm")
    choice = choose(options.model, os.environ)
    reflecting = parse(options.reflection_model) if options.reflection_model else choice
    if not (choice.is_model and reflecting.is_model):
        raise ModelError(
            "instructions are for language models", f"set {DEFAULT_KEY}, or name one, such as `model` {DEFAULT}"
        )
    quiet_libraries()
    from ...agent.models.models import ModelSettings  # with it comes dspy

    # The address of a server applies to models named openai/NAME, and is a mistake without one.
    elsewhere = not any(model.is_openai for model in (choice, reflecting))
    following = ModelSettings(
        choice,
        api_base=options.api_base if choice.is_openai or elsewhere else None,
        budget=Budget(tokens=options.max_tokens, dollars=options.max_cost),
        wait=options.wait,
    )
    other = replace(following, rewriting=reflecting, api_base=options.api_base if reflecting.is_openai else None)
    device = runtime.device(options)
    situations = chosen_situations(options, device, notes(runtime.emit))
    _require_writable(options.output)
    return Plan.of(
        options,
        following=following,
        improving=following if reflecting == choice else other,
        device=device,
        situations=situations,
        open_evaluators=runtime.evaluators(device, 1, TimingOptions(quick=options.quick)),
    )


def run(plan: Plan, emit: Emit) -> Result:
    """Try the program on recorded problems, improve its instructions, and save them if they measure better."""
    tell, device, situations = notes(emit), plan.device, plan.situations
    from ...agent.applied_rules import AppliedRules
    from ...agent.models.models import Models
    from ...agent.models.transcript import Transcript
    from ...agent.program.signatures import save_program
    from ...agent.prompt_optimization.compile_folder import CompileFolder
    from ...agent.prompt_optimization.gepa import PROPOSALS, compile_program, split
    from ...agent.prompt_optimization.rollout import Rollouts

    folder = CompileFolder(plan.results, plan.resume)
    with (
        contextlib.closing(Transcript(folder.transcript)) as transcript,
        plan.open_evaluators() as evaluators,
        folder.workbenches(evaluators.pool, evaluators.searcher, ignore) as workbench,
    ):
        deadline = Deadline(plan.time_limit)
        limits: dict[str, Any] = {"tell": tell, "late": deadline.late, "remaining": deadline.remaining}
        models = improving = Models(plan.following, transcript, os.environ, **limits)
        models.check()
        if plan.improving != plan.following:
            improving = Models(plan.improving, transcript, os.environ, **limits)
            improving.check()
        examples = Examples(EarlierRuns(plan.results, tell), own_examples(), tell)
        rules = AppliedRules(machine(device))
        rollouts = Rollouts(models, workbench, ignore, examples, RAG_K, tell, rules.skipped)
        chosen = split(rollouts.begin_all(situations), plan.seed)
        evaluations = plan.max_evaluations or chosen.evaluations(PROPOSALS[plan.budget.value])
        _announce(chosen, evaluations, tell)
        optimized = compile_program(chosen, rollouts, improving, evaluations, plan.seed, tell)
        spent = transcript.spent
    found = {
        "language": situations[0].kind[0].id,
        "target": situations[0].kind[1].value,
        "device": device_label(device),
        "model": plan.following.rewriting.name,
        "reflection_model": plan.improving.rewriting.name,
        "seed": plan.seed,
        "training": [item.name for item in chosen.training],
        "validation": [item.name for item in chosen.validation],
        "scores": optimized.scores,
        "proposals": optimized.proposals,
        "evaluations": optimized.evaluations,
    }
    if optimized.improved:
        save_program(optimized.program(situations[0].kind), plan.output, **found)
    return Result(found=found, optimized=optimized, output=plan.output, spent=spent)


def chosen_situations(options: Options, device: str, tell: Tell) -> list[RecordedTurn]:
    """Return the contexts in the journals for one backend: the given or the most frequent one."""
    from ...agent.prompt_optimization.recorded import journals_in, read_turn_contexts

    given = [find_problem(str(path)).read() for path in options.problem]

    def problems(name: str) -> Iterator[TorchProblem]:
        yield from given
        with contextlib.suppress(ProblemError):
            yield find_problem(name, options.dataset).read()

    found = read_turn_contexts(journals_in(options.recorded), problems, device_label(device), tell)
    counts = Counter(_backend(item) for item in found)
    wanted = options.backend or next((name for name, _ in counts.most_common(1)), None)
    if wanted is None or not counts[wanted]:
        raise OptionError(
            f"no recorded situations{f' of {options.backend}' if options.backend else ''} to train on",
            "run 'kernelwright optimize' on this device first",
        )
    if others := ", ".join(f"{count} of {name}" for name, count in counts.items() if name != wanted):
        tell(f"left out: situations of other backends ({others}); instructions are compiled for {wanted} alone")
    return [item for item in found if _backend(item) == wanted]


def _backend(turn: RecordedTurn) -> str:
    return Job(turn.kernel, turn.problem, "", "").backend


def _require_writable(output: Path) -> None:
    """Raise `ResultsError` now, not after hours of work."""
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=output.parent):
            pass
    except OSError as error:
        raise ResultsError(f"cannot write {output}: {error.strerror}", "choose another `output`") from None


def _announce(chosen: Split, evaluations: int, tell: Tell) -> None:
    """Report the situations for training and validation, and an estimate of the work."""
    if chosen.training == chosen.validation:
        tell("a single situation is used for training and for validation: the result may fit it only")
    for part, members in (("training", chosen.training), ("validation", chosen.validation)):
        tell(f"{part}: {', '.join(member.name for member in members)}")
    tell(f"at most about {evaluations} runs of the program")
