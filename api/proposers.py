"""The proposers: the built-in rules, or a language model with its examples, its program and its budget."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..agent.models.choice import DEFAULT_KEY, choose, parse
from ..agent.priors import Gains, prior_of
from ..agent.proposer import Proposer
from ..core import Budget, OptionError
from ..core.events import Emit, Note, Replying, notes
from ..core.extras import require_extra
from ..core.language import of_backend
from .archive import EarlierRuns
from .deadline import Deadline
from .devices import CPU
from .evaluators import machine
from .examples import Examples
from .jobs import Job
from .options.optimize import RunOptions
from .options.option import details_of

if TYPE_CHECKING:
    from ..agent.models.models import Models
    from ..agent.program.first_kernel import FirstKernelWriter

RAG_K = 3


@dataclass(frozen=True)
class OpenProposer:
    """A proposer, what the models of a lane cost, and what all of them have cost so far."""

    proposer: Proposer
    cost: Callable[[str], dict[str, Any]] = lambda lane: {}
    spent: Callable[[], Budget] = lambda: Budget(tokens=0, dollars=0.0)


class Proposers:
    """Makes the proposer of each kernel of a command."""

    def __init__(self, options: RunOptions, emit: Emit, earlier: EarlierRuns) -> None:
        self.choice = choose(options.model, os.environ)
        self._options = options
        self._analysis = parse(options.analysis_model) if options.analysis_model else None
        self._emit = emit
        self._earlier = earlier
        self._noted = options.model is not None
        if self.choice.is_model:
            require_extra("a language model", "dspy", "llm")
        else:
            _require_no_model_options(options)

    @property
    def name(self) -> str:
        """The proposer's name in the journal."""
        return self.choice.name

    def check(self, backend: str, transcript: Path) -> None:
        """Find out whether the model can be used, before anything else is done; its reply goes into `transcript`.

        Raises `ModelError` or `OptionError` when it cannot.
        """
        if self.choice.is_model:
            self._program(backend)
            with self._models(transcript) as models:
                models.check()

    @contextlib.contextmanager
    def open(self, job: Job, transcript: Path, gains: Gains | None = None) -> Iterator[OpenProposer]:
        """The proposer of one kernel; `gains` are what rules are expected to gain."""
        if not self.choice.is_model:
            if not self._noted:
                self._emit(Note(f"{_no_model(os.environ)}: the built-in rules propose"))
                self._noted = True
            from ..agent.rule_proposer import RuleProposer

            rules = RuleProposer(machine(job.device), prior=prior_of(gains or {}))
            if job.device != CPU:  # while servers start; of a CPU the servers have all cores
                rules.prepare(job.kernel)
            yield OpenProposer(rules)
            return
        with self._models(transcript) as models:
            from ..agent.program.proposer import ModelProposer

            k, examples = self._examples()
            exchanges = models.transcript
            yield OpenProposer(
                ModelProposer(models, self._emit, examples, k, self._program(job.backend)),
                cost=lambda lane: exchanges.cost([lane]),
                spent=lambda: exchanges.spent,
            )

    @contextlib.contextmanager
    def writer(self, transcript: Path) -> Iterator[FirstKernelWriter]:
        """A model that was checked writes the first kernel of a problem; its exchanges go into `transcript`."""
        with self._models(transcript) as models:
            from ..agent.program.first_kernel import FirstKernelWriter

            k, examples = self._examples()
            yield FirstKernelWriter(models, examples, k)

    def _examples(self) -> tuple[int, Examples | None]:
        """How many worked examples a model sees, and where they come from."""
        k = RAG_K if self._options.rag_k is None else self._options.rag_k
        return k, Examples(self._earlier, self._options.own_examples, notes(self._emit)) if k else None

    @contextlib.contextmanager
    def _models(self, transcript: Path) -> Iterator[Models]:
        quiet_libraries()
        from ..agent.models.models import Models, ModelSettings
        from ..agent.models.transcript import Transcript

        options, deadline = self._options, Deadline(self._options.time_limit)
        settings = ModelSettings(
            rewriting=self.choice,
            analysis=self._analysis,
            api_base=options.api_base,
            temperature=options.temperature,
            budget=Budget(tokens=options.max_tokens, dollars=options.max_cost),
            wait=options.wait,
        )
        with contextlib.closing(Transcript(transcript)) as exchanges:
            yield Models(
                settings,
                exchanges,
                os.environ,
                tell=notes(self._emit),
                watch=lambda lane, characters: self._emit(Replying(lane, characters)),
                late=deadline.late,
                remaining=deadline.remaining,
            )

    def _program(self, backend: str) -> dict[str, Any] | None:
        from ..agent.program.signatures import read_program

        path = self._options.program
        return read_program(path, *of_backend(backend)) if path else None


def _no_model(environment: Mapping[str, str]) -> str:
    """Why no language model was chosen where none was asked for."""
    if environment.get(DEFAULT_KEY):
        return "there is no DSPy to talk to a language model (pip install 'kernelwright[llm]')"
    return f"no key for a language model ({DEFAULT_KEY})"


def quiet_libraries() -> None:
    """DSPy and LiteLLM look for prices on the network at the first call, and report it when there is none.

    LiteLLM also reads a .env above the folder that it is installed in: a project with its own .venv could lead keys
    elsewhere.
    """
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    os.environ.setdefault("LITELLM_MODE", "PRODUCTION")
    # What it reports, the engine notes or raises as well.
    logging.getLogger("dspy").setLevel(logging.CRITICAL)


def _require_no_model_options(options: RunOptions) -> None:
    """Raise `OptionError` for an option that only a language model could use."""
    for field in dataclasses.fields(options):
        if details_of(field).of_models and getattr(options, field.name) != field.default:
            raise OptionError(
                f"`{field.name}` is for language models, and the rules propose here",
                "leave it out, or name one with `model`",
            )
