"""The models of a run: one that analyses and one that rewrites, and the account of their costs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import dspy
from dspy import lm15

from ...core import Budget, ModelError, OptionError
from .choice import Kind, ModelChoice
from .engines import Engine, ReplySource
from .failures import explained
from .files import Files
from .named import Named, RetryPolicy
from .prompt_file import open_folder
from .replay import RecordedReplies, ReplaySource
from .secrets import Redactor
from .transcript import PROBE, Transcript

ANALYSE, REWRITE = "analyse", "rewrite"
REPLY_S = 600
"""Seconds. Reasoning models think for minutes before they reply."""
PROBE_S = 120
"""Tokens for the check: one word needs no long thoughts."""
RETRIES = 4


@dataclass(frozen=True)
class ModelSettings:
    """How to reach the models, and their limits."""

    rewriting: ModelChoice
    analysis: ModelChoice | None = None
    """The model that analyses; None: the same model."""
    api_base: str | None = None
    """A server with OpenAI's protocol; for the models named openai/NAME only."""
    temperature: float | None = None
    budget: Budget = field(default_factory=Budget)
    """Limits of tokens and dollars."""
    wait: bool = True
    """Whether to wait for replies in files."""

    def __post_init__(self) -> None:
        if not all(choice.is_model for choice in self.choices):
            raise OptionError("the rules are not a language model; name one for `analysis_model`, or leave it out")
        named = [choice for choice in self.choices if choice.kind is Kind.NAMED]
        if self.api_base and named and not any(choice.is_openai for choice in named):
            name = named[0].name.partition("/")[2]
            raise OptionError(
                f"`api_base` is for a server that speaks OpenAI's protocol, and {named[0].name} is not on it; "
                f"write openai/{name} for a model of that server, or leave `api_base` out"
            )

    @property
    def choices(self) -> tuple[ModelChoice, ...]:
        """Return each model once."""
        return tuple(dict.fromkeys(choice for choice in (self.rewriting, self.analysis) if choice is not None))


class Models:
    """Creates one `dspy.LM` per lane and purpose.

    `tell` gets messages for the user, `watch` the lane and the number of characters of a reply so far; `late` returns
    the limit of the run that is reached, if any, and `remaining` the seconds that are left, if there is a limit. Raises
    `ModelError` for models that cannot be used; `check` finds out before anything is measured.
    """

    def __init__(
        self,
        settings: ModelSettings,
        transcript: Transcript,
        environment: Mapping[str, str],
        tell: Callable[[str], None] = lambda text: None,
        watch: Callable[[str, int], None] | None = None,
        late: Callable[[], str | None] = lambda: None,
        remaining: Callable[[], float | None] = lambda: None,
        reply_s: float = REPLY_S,
        retries: int = RETRIES,
    ) -> None:
        self.settings = settings
        self.transcript = transcript
        self.redact = Redactor(environment)
        self._environment = environment
        self._notify = lambda text: tell(self.redact(text))
        self._watch = watch
        self._late = late
        self._remaining = remaining
        self._reply_s = reply_s
        self._retries = retries
        self._writing = threading.Lock()
        self._named = {choice: self._client(choice) for choice in settings.choices if choice.kind is Kind.NAMED}
        self._recordings = {
            choice: RecordedReplies(choice.path) for choice in settings.choices if choice.kind is Kind.REPLAY
        }

    def lm(self, purpose: str, lane: str) -> dspy.LM:
        """Return the model for a purpose in a lane."""
        choice = (self.settings.analysis if purpose == ANALYSE else None) or self.settings.rewriting
        return self._lm(choice, purpose, lane)

    def check(self) -> None:
        """Request a word from each named model, and look into each folder: failures show now, not after minutes.

        Raises `OptionError` for a limit in dollars where a model's price is unknown. A resumed run checks again, unless
        its limits are used up: then it only reads the transcript.
        """
        for choice in self.settings.choices:
            if choice.kind is Kind.FILES:
                open_folder(choice.path)
            if choice.kind is Kind.NAMED and self._exhausted() is None:
                self._probe(choice)

    def explain(self, error: Exception) -> str:
        """Return one line for an error of one of the models, without keys."""
        asked = str(getattr(error, "model", None) or "")  # without its provider, where LiteLLM sent it
        names = [choice.name for choice in self.settings.choices]
        return explained(error, next((name for name in names if name.endswith(asked)), names[0]), self.redact)

    def _probe(self, choice: ModelChoice) -> None:
        lane = f"check.{choice.name}"
        request = lm15.Request(model=choice.name, messages=(lm15.Message.user("Reply with the word ready."),))
        try:
            self._lm(choice, PROBE, lane)(request)
        except dspy.LMError as error:
            raise ModelError(explained(error, choice.name, self.redact)) from None
        if self.settings.budget.dollars is not None and not self.transcript.priced(lane):
            raise OptionError(f"no price is known for {choice.name}, so `max_cost` cannot be kept; use `max_tokens`")

    def _lm(self, choice: ModelChoice, purpose: str, lane: str) -> dspy.LM:
        source = self._source(choice, purpose, lane)
        engine = Engine(source, self.transcript, lane, purpose, self._exhausted, self.redact)
        # Recorded and written replies need no name of a provider.
        named = choice.kind is Kind.NAMED
        name, temperature = choice.name if named else f"kernelwright/{choice.kind}", self.settings.temperature
        return dspy.LM(name, engine=engine, cache=False, num_retries=0, temperature=temperature if named else None)

    def _source(self, choice: ModelChoice, purpose: str, lane: str) -> ReplySource:
        if choice.kind is Kind.REPLAY:
            return ReplaySource(self._recordings[choice], lane, purpose)
        if choice.kind is Kind.FILES:
            return Files(choice.path, lane, self.settings.wait, self._notify, self._late, self._writing)
        lm, seconds, watch = self._named[choice], self._reply_s, self._watch
        if purpose == PROBE:
            seconds, watch = min(PROBE_S, seconds), None
            lm = lm.copy(timeout=seconds)
        policy = RetryPolicy(self._retries, seconds, self._notify, self._late, self._remaining)
        return Named(lm, policy, partial(watch, lane) if watch else None)

    def _client(self, choice: ModelChoice) -> dspy.LM:
        """Return DSPy's own client. A custom server needs no key, so it gets a placeholder, never another provider's
        key."""
        name = choice.name
        self._require_temperature(name)
        options: dict[str, Any] = {"timeout": self._reply_s}
        if key := self._environment.get(f"{name.partition('/')[0].upper()}_API_KEY"):
            options["api_key"] = key
        if self.settings.api_base and choice.is_openai:
            options = {"api_key": "none", **options, "api_base": self.settings.api_base}
        try:
            return dspy.LM(name, cache=False, num_retries=0, **options)
        except (dspy.LMError, ValueError) as error:
            raise ModelError(f"`model` {name} cannot be used: {self.redact(str(error))}") from None

    def _require_temperature(self, name: str) -> None:
        """Raise `OptionError` for a reasoning model, which supports no temperature but 1."""
        wanted = self.settings.temperature
        if wanted is None:
            return
        try:
            # DSPy takes 0 for no temperature, and the server would refuse it: a half is refused for both.
            dspy.LM(name, temperature=wanted or 0.5)
        except dspy.LMConfigurationError:
            raise OptionError(
                f"`temperature` {wanted:g}: {name} reasons, and takes no temperature but 1; leave it out"
            ) from None

    def _exhausted(self) -> str | None:
        limits = Budget(tokens=self.settings.budget.tokens, dollars=self.settings.budget.dollars)
        return limits.exhausted(self.transcript.spent) or self._late()
