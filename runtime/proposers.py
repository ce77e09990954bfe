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

from ..agent.models.choice import DEFAULT_KEY, ModelChoice, choose, parse
from ..agent.priors import Gains, prior_of
from ..agent.proposer import Proposer
from ..core import Budget, OptionError
from ..core.budget import Deadline
from ..core.events import Emit, Note, Replying, notes
from ..core.extras import require_extra
from ..core.language import of_backend
from .archive import EarlierRuns, Examples
from .devices import CPU
from .evaluators import machine
from .jobs import Job
from .options.groups import RunOptions
from .options.option import details_of, made_of

if TYPE_CHECKING:
    from ..agent.models.models import Models
    from ..agent.program.first_kernel import FirstKernelWriter

RAG_K = 3


@dataclass(frozen=True)
class OpenProposer:
    """A proposer, with the costs of a lane's models and of all models so far."""

    proposer: Proposer
    cost: Callable[[str], dict[str, Any]] = lambda lane: {}
    spent: Callable[[], Budget] = lambda: Budget(tokens=0, dollars=0.0)


@dataclass(frozen=True)
class ProposerSettings:
    """The choice of the proposer, and the settings of a language model."""

    choice: ModelChoice
    named: bool
    """Whether the user named it."""
    analysis: ModelChoice | None
    api_base: str | None
    temperature: float | None
    budget: Budget
    """Limits on tokens and dollars."""
    time_limit: float | None
    wait: bool
    examples: int
    """Worked examples that a model sees."""
    own_examples: Path
    program: Path | None

    @classmethod
    def of(cls, options: RunOptions) -> ProposerSettings:
        """Read the options. Raises `OptionError` for those of a language model where rules propose."""
        choice = choose(options.model, os.environ)
        analysis = parse(options.analysis_model) if options.analysis_model else None
        if choice.is_model:
            require_extra("a language model", "dspy", "llm")
        else:
            _require_no_model_options(options)
        return made_of(
            cls,
            options,
            choice=choice,
            named=options.model is not None,
            analysis=analysis,
            budget=Budget(tokens=options.max_tokens, dollars=options.max_cost),
            examples=RAG_K if options.rag_k is None else options.rag_k,
        )


class Proposers:
    """Makes the proposer of each kernel of a command."""

    def __init__(self, settings: ProposerSettings, emit: Emit, earlier: EarlierRuns) -> None:
        self.choice = settings.choice
        self._settings = settings
        self._emit = emit
        self._earlier = earlier
        self._noted = settings.named

    @property
    def name(self) -> str:
        """The proposer's name in the journal."""
        return self.choice.name

    def check(self, backend: str, transcript: Path) -> None:
        """Check that the model can be used. Its reply is written to `transcript`.

        Raises `ModelError` or `OptionError` when it cannot.
        """
        if self.choice.is_model:
            self._program(backend)
            with self._models(transcript) as models:
                models.check()

    @contextlib.contextmanager
    def open(self, job: Job, transcript: Path, gains: Gains | None = None) -> Iterator[OpenProposer]:
        """Open the proposer of one kernel. `gains` are the expected gains of rules."""
        if not self.choice.is_model:
            if not self._noted:
                self._emit(Note(f"{_no_model(os.environ)}: the built-in rules propose"))
                self._noted = True
            from ..agent.rule_proposer import RuleProposer

            rules = RuleProposer(machine(job.device), prior=prior_of(gains or {}))
            if job.device != CPU:  # while servers start; on a CPU they need all cores
                rules.prepare(job.kernel)
            yield OpenProposer(rules)
            return
        with self._models(transcript) as models:
            from ..agent.applied_rules import AppliedRules
            from ..agent.program.proposer import ModelProposer

            examples = self._examples()
            exchanges, applied = models.transcript, AppliedRules(machine(job.device))
            yield OpenProposer(
                ModelProposer(
                    models, self._emit, examples, self._settings.examples, self._program(job.backend), applied.skipped
                ),
                cost=lambda lane: exchanges.cost([lane]),
                spent=lambda: exchanges.spent,
            )

    @contextlib.contextmanager
    def writer(self, transcript: Path) -> Iterator[FirstKernelWriter]:
        """A model that was checked writes the first kernel of a problem; its exchanges go into `transcript`."""
        with self._models(transcript) as models:
            from ..agent.program.first_kernel import FirstKernelWriter

            yield FirstKernelWriter(models, self._examples(), self._settings.examples)

    def _examples(self) -> Examples | None:
        """The source of the worked examples for a model."""
        settings = self._settings
        return Examples(self._earlier, settings.own_examples, notes(self._emit)) if settings.examples else None

    @contextlib.contextmanager
    def _models(self, transcript: Path) -> Iterator[Models]:
        quiet_libraries()
        from ..agent.models.models import Models, ModelSettings
        from ..agent.models.transcript import Transcript

        given, deadline = self._settings, Deadline(self._settings.time_limit)
        settings = ModelSettings(
            given.choice, given.analysis, given.api_base, given.temperature, budget=given.budget, wait=given.wait
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

        path = self._settings.program
        return read_program(path, *of_backend(backend)) if path else None


def _no_model(environment: Mapping[str, str]) -> str:
    """Return the reason why no language model was chosen by default."""
    if environment.get(DEFAULT_KEY):
        return "there is no DSPy to talk to a language model (pip install 'kernelwright[llm]')"
    return f"no key for a language model ({DEFAULT_KEY})"


def quiet_libraries() -> None:
    """Keep DSPy and LiteLLM from looking for prices on the network, and from reporting that there is none.

    LiteLLM also reads a .env above the folder that it is installed in: a project with its own .venv could send keys
    elsewhere.
    """
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    os.environ.setdefault("LITELLM_MODE", "PRODUCTION")
    # The engine itself notes or raises whatever it reports.
    logging.getLogger("dspy").setLevel(logging.CRITICAL)


def _require_no_model_options(options: RunOptions) -> None:
    """Raise `OptionError` for an option that only a language model could use."""
    for field in dataclasses.fields(options):
        if details_of(field).of_models and getattr(options, field.name) != field.default:
            raise OptionError(
                f"`{field.name}` is for language models, and the rules propose here",
                "leave it out, or name one with `model`",
            )
