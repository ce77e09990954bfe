"""Models against the scripted server, and what their transcript holds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kernelwright.agent.models.choice import parse
from kernelwright.agent.models.models import REWRITE, Models, ModelSettings
from kernelwright.agent.models.transcript import Transcript

from ...openai_server import KEY, OpenAIServer

MODEL = "openai/gpt-4o"
ENVIRONMENT = {"OPENAI_API_KEY": KEY}


class Asked:
    """Models with a transcript in a folder; entered a second time, as the same run resumed."""

    def __init__(self, folder: Path, model: str = MODEL, server: OpenAIServer | None = None, **settings: Any) -> None:
        self.path = folder / "transcript.jsonl"
        self.told: list[str] = []
        self.watched: list[tuple[str, int]] = []
        base = {"api_base": server.base_url} if server else {}
        self._settings = ModelSettings(parse(model), **{**base, **settings})

    def models(
        self,
        environment: Mapping[str, str] = ENVIRONMENT,
        watch: bool = False,
        reply_s: float = 20,
        retries: int = 0,
        **options: Any,
    ) -> Models:
        self.transcript = Transcript(self.path)
        return Models(
            self._settings,
            self.transcript,
            environment,
            tell=self.told.append,
            watch=(lambda lane, characters: self.watched.append((lane, characters))) if watch else None,
            reply_s=reply_s,
            retries=retries,
            **options,
        )

    def resumed(self, **options: Any) -> Models:
        self.transcript.close()
        return self.models(**options)

    @property
    def records(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.path.read_text().splitlines()]


def ask(models: Models, text: str = "hello", lane: str = "1.0", purpose: str = REWRITE) -> str:
    """The text of one reply."""
    (reply,) = models.lm(purpose, lane)(text)
    return str(reply["text"] if isinstance(reply, dict) else reply)
