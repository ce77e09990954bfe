"""`kernelwright agent compile`: from recorded runs to a program with better instructions."""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape

from ..agent.models.choice import DEFAULT, DEFAULT_KEY, choose, parse
from ..core import Budget, ModelError, OptionError, ProblemError, TorchProblem
from ..corpus import find_problem
from . import wiring
from .compile_folder import CompileFolder, require_writable
from .console import console
from .deadline import Deadline
from .proposers import RAG_K, quiet_libraries
from .request import Request

if TYPE_CHECKING:
    from ..agent.prompt_optimization.gepa import OptimizedProgram, Split
    from ..agent.prompt_optimization.recorded import RecordedTurn
    from ..agent.prompt_optimization.rollout import Rollouts

Tell = Callable[[str], None]


@dataclass(frozen=True)
class CompileOptions:
    """What the user asked for."""

    recorded: tuple[Path, ...]
    model: str | None = None
    reflection_model: str | None = None
    api_base: str | None = None
    wait: bool = True
    size: str = "light"
    max_evaluations: int | None = None
    max_tokens: int | None = None
    max_cost: float | None = None
    time_limit: float | None = None
    seed: int = 0
    device: str = "auto"
    backend: str | None = None
    problems: tuple[Path, ...] = ()
    dataset: Path | None = None
    output: Path = Path("program.json")
    results: Path = Path("results")
    resume: bool = False
    json: bool = False
    quiet: bool = False

    def check(self) -> None:
        """Raise `OptionError` for what cannot be done."""
        limits = {
            "--max-evaluations": self.max_evaluations,
            "--max-tokens": self.max_tokens,
            "--max-cost": self.max_cost,
            "--time-limit": self.time_limit,
        }
        for option, value in limits.items():
            if value is not None and not 0 < value < float("inf"):
                raise OptionError(f"{option} {value:g} leaves nothing to work with; give more, or leave it out")
        if self.output.is_dir():
            raise OptionError(f"--output {self.output} is a folder; name a file in it, such as program.json")


def run_compile(options: CompileOptions) -> int:
    """Improve the instructions; 0 when better ones are saved, 1 when none were better."""
    options.check()
    choice = choose(options.model, os.environ)
    reflecting = parse(options.reflection_model) if options.reflection_model else choice
    if not (choice.is_model and reflecting.is_model):
        raise ModelError(
            f"instructions are for language models: set {DEFAULT_KEY}, or name one, such as --model {DEFAULT}"
        )
    screen = console(stderr=options.json)
    screen.file = screen.file  # this very stream, whatever sys.stdout becomes while GEPA draws its bars
    tell: Tell = (lambda text: None) if options.quiet else lambda text: screen.print(escape(text))
    device = wiring.choose_device(Request(device=options.device))
    situations = chosen_situations(options, device, tell)
    require_writable(options.output)
    folder = CompileFolder(options.results, options.resume)

    from ..agent.models.models import Models, ModelSettings
    from ..agent.models.transcript import Transcript
    from ..agent.program.signatures import save_program
    from ..agent.prompt_optimization.gepa import PROPOSALS, compile_program, split
    from ..agent.prompt_optimization.rollout import Rollouts
    from .progress import Silent

    quiet_libraries()
    # A server's address is for the models named openai/NAME, and wrong where there is none.
    elsewhere = not any(model.is_openai for model in (choice, reflecting))
    settings = ModelSettings(
        choice,
        api_base=options.api_base if choice.is_openai or elsewhere else None,
        budget=Budget(tokens=options.max_tokens, dollars=options.max_cost),
        wait=options.wait,
    )
    with (
        contextlib.closing(Transcript(folder.transcript)) as transcript,
        wiring.Evaluators(device, 1) as evaluators,
        folder.workbenches(evaluators, Silent()) as workbench,
    ):
        deadline = Deadline(options.time_limit)
        models = Models(settings, transcript, os.environ, tell=tell, late=deadline.late, remaining=deadline.remaining)
        improving = models
        models.check()
        if reflecting != choice:
            api_base = options.api_base if reflecting.is_openai else None
            improving = Models(
                replace(settings, rewriting=reflecting, api_base=api_base),
                *(transcript, os.environ), tell=tell, late=deadline.late, remaining=deadline.remaining,
            )  # fmt: skip
            improving.check()
        examples = wiring.Examples(options.results, tell)
        rollouts = Rollouts(models, workbench, Silent(), examples, RAG_K, tell)
        chosen = split(_begun(situations, rollouts, tell), options.seed)
        evaluations = options.max_evaluations or chosen.evaluations(PROPOSALS[options.size])
        _announce(chosen, evaluations, tell)
        with _without_bars():
            compiled = compile_program(chosen, rollouts, improving, evaluations, options.seed, tell)
        spent = transcript.spent
    found = {
        "language": situations[0].kind[0].value,
        "target": situations[0].kind[1].value,
        "device": wiring.device_label(device),
        "model": choice.name,
        "reflection_model": reflecting.name,
        "seed": options.seed,
        "training": [one.name for one in chosen.training],
        "validation": [one.name for one in chosen.validation],
        "scores": compiled.scores,
        "proposals": compiled.proposals,
        "evaluations": compiled.evaluations,
    }
    if compiled.improved:
        save_program(compiled.program(situations[0].kind), options.output, **found)
    for line in _result(compiled, options):
        screen.print(escape(line))
    if options.json:
        saved = str(options.output) if compiled.improved else None
        summary = {**found, "stopped": compiled.stopped, "tokens": spent.tokens, "dollars": spent.dollars}
        print(json.dumps({**summary, "program": saved}), file=sys.stdout)
    return 0 if compiled.improved else 1


def chosen_situations(options: CompileOptions, device: str, tell: Tell) -> list[RecordedTurn]:
    """What the journals hold for one language and target: those of the backend, or of most."""
    from ..agent.prompt_optimization.recorded import journals_in, read_turn_contexts

    given = [find_problem(str(path)).read() for path in options.problems]

    def problems(name: str) -> Iterator[TorchProblem]:
        yield from given
        with contextlib.suppress(ProblemError):
            yield find_problem(name, options.dataset).read()

    found = read_turn_contexts(journals_in(options.recorded), problems, wiring.device_label(device), tell)
    counts = Counter(_backend(one) for one in found)
    wanted = options.backend or next((name for name, _ in counts.most_common(1)), None)
    if wanted is None or not counts[wanted]:
        raise OptionError(
            f"no recorded situations{f' of {options.backend}' if options.backend else ''} to practise on; "
            "run 'kernelwright optimize' on this device first"
        )
    if others := ", ".join(f"{count} of {name}" for name, count in counts.items() if name != wanted):
        tell(f"left out: situations of other backends ({others}); instructions are compiled for {wanted} alone")
    return [one for one in found if _backend(one) == wanted]


def _backend(one: RecordedTurn) -> str:
    return wiring.Job(one.kernel, one.problem, "", "").backend


def _begun(situations: list[RecordedTurn], rollouts: Rollouts, tell: Tell) -> list[RecordedTurn]:
    """Those whose kernel is right and timed here and now."""
    begun = []
    for one in situations:
        why = rollouts.begin(one)
        if why is None:
            begun.append(one)
        else:
            tell(f"left out: {one.name}: {why}")
    if not begun:
        raise OptionError("none of the recorded kernels is right and timed on this device: nothing to practise on")
    return begun


def _announce(chosen: Split, evaluations: int, tell: Tell) -> None:
    if chosen.training == chosen.validation:
        tell("a single situation serves for training and for validation: what is found may fit it alone")
    for part, members in (("training", chosen.training), ("validation", chosen.validation)):
        tell(f"{part}: {', '.join(one.name for one in members)}")
    tell(f"at most about {evaluations} runs of the program")


def _result(compiled: OptimizedProgram, options: CompileOptions) -> Iterator[str]:
    if compiled.stopped:
        yield f"stopped: {compiled.stopped}"
    tried = f"{compiled.proposals} proposals, {compiled.evaluations} runs"
    if not compiled.scores:
        yield "no program: it ended before the instructions as they are were tried in full"
    elif compiled.improved:
        yield f"validation: {compiled.scores[0]:.3f} -> {compiled.scores[compiled.best]:.3f} ({tried})"
        yield f"program: {options.output}"
    else:
        yield f"none better than the instructions as they are, {compiled.scores[0]:.3f} ({tried}): no program written"


@contextlib.contextmanager
def _without_bars() -> Iterator[None]:
    """GEPA draws progress bars, and there is no option to leave them out."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield
