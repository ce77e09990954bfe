"""Who proposes: the built-in rules, or a language model with its examples, its program and its account."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..agent.models.choice import DEFAULT_KEY, choose, parse
from ..agent.observer import Observer
from ..agent.proposer import Proposer
from ..agent.rule_proposer import RuleProposer
from ..core import Budget, OptionError
from . import wiring
from .deadline import Deadline
from .request import Request

if TYPE_CHECKING:
    from ..agent.models.models import Models
    from .render import Screen

RAG_K = 3


@dataclass(frozen=True)
class Proposing:
    """A proposer, what the models of a lane cost, and what all of them have cost so far."""

    proposer: Proposer
    cost: Callable[[str], dict[str, Any]] = lambda lane: {}
    spent: Callable[[], Budget] = lambda: Budget(tokens=0, dollars=0.0)


class Proposers:
    """Makes the proposer of each kernel of a command."""

    def __init__(self, request: Request, screen: Screen) -> None:
        self.request = request
        self.choice = choose(request.model, os.environ)
        self.analysis = parse(request.analysis_model) if request.analysis_model else None
        self._screen = screen
        self._told = request.model is not None
        if not self.choice.is_model:
            _require_no_model_options(request)

    @property
    def name(self) -> str:
        """What the journal says of who proposed."""
        return self.choice.name

    def check(self, job: wiring.Job, transcript: Path) -> None:
        """Find out whether the model can be used, before anything else is done; what it says goes into `transcript`.

        Raises `ModelError` or `OptionError` when it cannot.
        """
        if self.choice.is_model:
            self._program(job)
            with self._models(transcript) as models:
                models.check()

    @contextlib.contextmanager
    def open(self, job: wiring.Job, transcript: Path, observer: Observer) -> Iterator[Proposing]:
        """The proposer of one kernel."""
        if not self.choice.is_model:
            if not self._told:
                self._screen.note(f"no key for a language model ({DEFAULT_KEY}): the built-in rules propose")
                self._told = True
            yield Proposing(RuleProposer(wiring.machine(job.device)))
            return
        with self._models(transcript) as models:
            from ..agent.program.proposer import ModelProposer

            k = RAG_K if self.request.rag_k is None else self.request.rag_k
            examples = wiring.Examples(self.request.results, self._screen.note) if k else None
            exchanges = models.transcript
            yield Proposing(
                ModelProposer(models, observer, examples, k, self._program(job)),
                cost=lambda lane: exchanges.cost([lane]),
                spent=lambda: exchanges.spent,
            )

    @contextlib.contextmanager
    def _models(self, transcript: Path) -> Iterator[Models]:
        quiet_libraries()
        from ..agent.models.models import Models, ModelSettings
        from ..agent.models.transcript import Transcript

        request, deadline = self.request, Deadline(self.request.time_limit)
        settings = ModelSettings(
            rewriting=self.choice,
            analysis=self.analysis,
            api_base=request.api_base,
            temperature=request.temperature,
            budget=Budget(tokens=request.max_tokens, dollars=request.max_cost),
            wait=request.wait,
        )
        with contextlib.closing(Transcript(transcript)) as exchanges:
            yield Models(
                settings,
                exchanges,
                os.environ,
                tell=self._screen.note,
                watch=self._screen.replying if self._screen.live else None,
                late=deadline.late,
                remaining=deadline.remaining,
            )

    def _program(self, job: wiring.Job) -> dict[str, Any] | None:
        from ..agent.program.signatures import read_program

        path = self.request.program
        return read_program(path, job.kernel.language, job.kernel.target) if path else None


def quiet_libraries() -> None:
    """DSPy and LiteLLM look for prices on the network at the first call, and tell of it when there is none."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    # What it tells of, the engine notes or raises as well.
    logging.getLogger("dspy").setLevel(logging.CRITICAL)


def _require_no_model_options(request: Request) -> None:
    """Raise `OptionError` for an option that only a language model could heed."""
    given = {
        "--analysis-model": request.analysis_model,
        "--api-base": request.api_base,
        "--temperature": request.temperature,
        "--rag-k": request.rag_k,
        "--program": request.program,
        "--max-tokens": request.max_tokens,
        "--max-cost": request.max_cost,
        "--no-wait": None if request.wait else True,
    }
    for option, value in given.items():
        if value is not None:
            raise OptionError(
                f"{option} is for language models, and the rules propose here; leave it out, or name one with --model"
            )
