"""`compile_program`: from recorded runs to a program with better instructions."""

from __future__ import annotations

import contextlib
import io
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..agent.models.choice import DEFAULT, DEFAULT_KEY, ModelChoice, choose, parse
from ..core import Budget, ModelError, OptionError, ProblemError, TorchProblem
from ..core.events import Emit, ignore, notes
from ..core.extras import require_extra
from ..core.files import own_examples
from ..corpus import find_problem
from .archive import EarlierRuns
from .compile_folder import CompileFolder, require_writable
from .deadline import Deadline
from .devices import choose_device, device_label
from .evaluators import Evaluators
from .examples import Examples
from .jobs import Job
from .options.program import CompileOptions
from .options.trust import TimingOptions
from .proposers import RAG_K, quiet_libraries

if TYPE_CHECKING:
    from ..agent.models.models import Models
    from ..agent.models.transcript import Transcript
    from ..agent.prompt_optimization.gepa import OptimizedProgram, Split
    from ..agent.prompt_optimization.recorded import RecordedTurn
    from ..agent.prompt_optimization.rollout import Rollouts

Tell = Callable[[str], None]


@dataclass(frozen=True)
class ProgramResult:
    """The tried instructions, and the better ones if there are any."""

    found: Mapping[str, Any]
    """Metadata of the saved program: language, target, device, models, seed, situations, scores, proposals and
    evaluations."""
    optimized: OptimizedProgram
    output: Path
    """Where the program is, if it is better."""
    spent: Budget
    """Tokens and dollars of all exchanges with models."""

    @property
    def improved(self) -> bool:
        """Whether better instructions are saved."""
        return self.optimized.improved

    def summary(self) -> dict[str, Any]:
        """The result as plain data, as `--json` prints it."""
        return {
            **self.found,
            "stopped": self.optimized.stopped,
            "tokens": self.spent.tokens,
            "dollars": self.spent.dollars,
            "program": str(self.output) if self.improved else None,
        }


def run_compile(options: CompileOptions, emit: Emit) -> ProgramResult:
    """Try the program on recorded problems, improve its instructions, and save them if they measure better."""
    require_extra("improving instructions", "dspy", "llm")
    choice = choose(options.model, os.environ)
    reflecting = parse(options.reflection_model) if options.reflection_model else choice
    if not (choice.is_model and reflecting.is_model):
        raise ModelError(
            "instructions are for language models", f"set {DEFAULT_KEY}, or name one, such as `model` {DEFAULT}"
        )
    tell = notes(emit)
    device = choose_device(options)
    situations = chosen_situations(options, device, tell)
    require_writable(options.output)
    folder = CompileFolder(options.results, options.resume)

    from ..agent.models.transcript import Transcript
    from ..agent.program.signatures import save_program
    from ..agent.prompt_optimization.gepa import PROPOSALS, compile_program, split
    from ..agent.prompt_optimization.rollout import Rollouts

    quiet_libraries()
    with (
        contextlib.closing(Transcript(folder.transcript)) as transcript,
        Evaluators(device, 1, TimingOptions(quick=options.quick)) as evaluators,
        folder.workbenches(evaluators, ignore) as workbench,
    ):
        models, improving = _models(options, choice, reflecting, transcript, tell)
        examples = Examples(EarlierRuns(options.results, tell), own_examples(), tell)
        rollouts = Rollouts(models, workbench, ignore, examples, RAG_K, tell)
        chosen = split(_begun(situations, rollouts, tell), options.seed)
        evaluations = options.max_evaluations or chosen.evaluations(PROPOSALS[options.budget.value])
        _announce(chosen, evaluations, tell)
        with _without_bars():
            optimized = compile_program(chosen, rollouts, improving, evaluations, options.seed, tell)
        spent = transcript.spent
    found = {
        "language": situations[0].kind[0].id,
        "target": situations[0].kind[1].value,
        "device": device_label(device),
        "model": choice.name,
        "reflection_model": reflecting.name,
        "seed": options.seed,
        "training": [item.name for item in chosen.training],
        "validation": [item.name for item in chosen.validation],
        "scores": optimized.scores,
        "proposals": optimized.proposals,
        "evaluations": optimized.evaluations,
    }
    if optimized.improved:
        save_program(optimized.program(situations[0].kind), options.output, **found)
    return ProgramResult(found, optimized, options.output, spent)


def _models(
    options: CompileOptions, choice: ModelChoice, reflecting: ModelChoice, transcript: Transcript, tell: Tell
) -> tuple[Models, Models]:
    """The model that follows the instructions, and the one that improves them; both have answered."""
    from ..agent.models.models import Models, ModelSettings

    # A server's address is for the models named openai/NAME, and wrong where there is none.
    elsewhere = not any(model.is_openai for model in (choice, reflecting))
    settings = ModelSettings(
        choice,
        api_base=options.api_base if choice.is_openai or elsewhere else None,
        budget=Budget(tokens=options.max_tokens, dollars=options.max_cost),
        wait=options.wait,
    )
    deadline = Deadline(options.time_limit)

    def opened(settings: ModelSettings) -> Models:
        models = Models(settings, transcript, os.environ, tell=tell, late=deadline.late, remaining=deadline.remaining)
        models.check()
        return models

    following = opened(settings)
    if reflecting == choice:
        return following, following
    api_base = options.api_base if reflecting.is_openai else None
    return following, opened(replace(settings, rewriting=reflecting, api_base=api_base))


def chosen_situations(options: CompileOptions, device: str, tell: Tell) -> list[RecordedTurn]:
    """Return the contexts in the journals for one language and target: the backend's, or the most frequent."""
    from ..agent.prompt_optimization.recorded import journals_in, read_turn_contexts

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
            f"no recorded situations{f' of {options.backend}' if options.backend else ''} to practise on",
            "run 'kernelwright optimize' on this device first",
        )
    if others := ", ".join(f"{count} of {name}" for name, count in counts.items() if name != wanted):
        tell(f"left out: situations of other backends ({others}); instructions are compiled for {wanted} alone")
    return [item for item in found if _backend(item) == wanted]


def _backend(one: RecordedTurn) -> str:
    return Job(one.kernel, one.problem, "", "").backend


def _begun(situations: list[RecordedTurn], rollouts: Rollouts, tell: Tell) -> list[RecordedTurn]:
    """Return the contexts whose kernel is correct and timed here and now."""
    begun = []
    for situation in situations:
        why = rollouts.begin(situation)
        if why is None:
            begun.append(situation)
        else:
            tell(f"left out: {situation.name}: {why}")
    if not begun:
        raise OptionError("none of the recorded kernels is correct and timed on this device: nothing to practise on")
    return begun


def _announce(chosen: Split, evaluations: int, tell: Tell) -> None:
    if chosen.training == chosen.validation:
        tell("a single situation is used for training and for validation: the result may fit it only")
    for part, members in (("training", chosen.training), ("validation", chosen.validation)):
        tell(f"{part}: {', '.join(member.name for member in members)}")
    tell(f"at most about {evaluations} runs of the program")


@contextlib.contextmanager
def _without_bars() -> Iterator[None]:
    """GEPA draws progress bars, and there is no option to leave them out."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield
