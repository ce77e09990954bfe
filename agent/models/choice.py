"""Parses `model`; without dspy, so that a typing mistake is reported at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from ...core import ModelError
from ...core.extras import is_installed

DEFAULT = "openai/o3"
DEFAULT_KEY = "OPENAI_API_KEY"


class Kind(StrEnum):
    """The kinds of proposer that `--model` names."""

    RULES = "rules"
    NAMED = "named"
    REPLAY = "replay"
    FILES = "files"


@dataclass(frozen=True)
class ModelChoice:
    """The proposer: the built-in rules, a model by its name, recorded replies, or replies in files."""

    kind: Kind
    name: str
    """The text as the user wrote it."""

    @property
    def path(self) -> Path:
        """The transcript of `replay:FILE`, or the folder of `files:DIR`."""
        return Path(self.name.partition(":")[2])

    @property
    def is_openai(self) -> bool:
        """Whether it is named openai/NAME: OpenAI's own, or one on a server with OpenAI's protocol."""
        return self.kind is Kind.NAMED and self.name.startswith("openai/")

    @property
    def is_model(self) -> bool:
        """Whether it is a language model over HTTP."""
        return self.kind is not Kind.RULES


RULES = ModelChoice(Kind.RULES, "rules")


def parse(text: str) -> ModelChoice:
    """Return the choice that a text names; raises `ModelError` for an invalid text."""
    if text == RULES.name:
        return RULES
    prefix, colon, rest = text.partition(":")
    if colon and prefix in (Kind.REPLAY, Kind.FILES):
        if not rest:
            example = "replay:results/multiturn_logs/transcript.jsonl" if prefix == Kind.REPLAY else "files:chat"
            raise ModelError(f"`model` {text} names no path; write one, such as {example}")
        choice = ModelChoice(Kind(prefix), text)
        if choice.kind is Kind.REPLAY and not choice.path.is_file():
            raise ModelError(f"`model` {text}: there is no file {choice.path}; give the transcript.jsonl of a run")
        if choice.kind is Kind.FILES and choice.path.exists() and not choice.path.is_dir():
            raise ModelError(f"`model` {text}: {choice.path} is not a folder; give one for prompts and replies")
        return choice
    provider, slash, model = text.partition("/")
    if not (slash and provider and model):
        raise ModelError(
            f"`model` {text!r} is not a model; write provider/name such as {DEFAULT}, replay:FILE, files:DIR, or rules"
        )
    return ModelChoice(Kind.NAMED, text)


def choose(text: str | None, environment: Mapping[str, str]) -> ModelChoice:
    """Return the requested choice; by default the strongest model with a key in the environment, else the rules.

    Rules too where DSPy, which talks to models, is not installed.
    """
    if text is not None:
        return parse(text)
    return parse(DEFAULT) if environment.get(DEFAULT_KEY) and is_installed("dspy") else RULES
