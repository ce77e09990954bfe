"""A context, and proposers whose model says what a test wants it to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from kernelwright.agent.program.proposer import ModelProposer
from kernelwright.core import Budget

from ...openai_server import OpenAIServer, Step, Text, Tools
from .stand import OneExample, Stand, native, stand, textual

Run = Callable[[Sequence[Step]], ModelProposer]


@pytest.fixture
def here(tmp_path: Path) -> Stand:
    return stand(tmp_path)


@pytest.fixture(params=["native", "text"])
def run(
    request: pytest.FixtureRequest, tmp_path: Path, here: Stand
) -> Iterator[Callable[[Sequence[Step]], ModelProposer]]:
    """A proposer whose model says these things, and no more than these."""
    servers: list[OpenAIServer] = []

    def make(steps: Sequence[Step]) -> ModelProposer:
        if request.param == "text":
            assert all(isinstance(step, Text | Tools) for step in steps)
            return ModelProposer(textual(tmp_path, steps), here.heard, OneExample())  # type: ignore[arg-type]
        servers.append(OpenAIServer(steps).__enter__())
        return ModelProposer(native(tmp_path, servers[-1]), here.heard, OneExample())

    yield make
    for server in servers:
        server.__exit__()
        assert server.errors == []
        assert server.unused() == []


@pytest.fixture
def served(tmp_path: Path, here: Stand) -> Iterator[Callable[..., tuple[ModelProposer, OpenAIServer]]]:
    """The same over HTTP alone, with the server."""
    servers: list[OpenAIServer] = []

    def make(*steps: Step, budget: Budget | None = None, **options: Any) -> tuple[ModelProposer, OpenAIServer]:
        servers.append(OpenAIServer(steps).__enter__())
        models = native(tmp_path, servers[-1], budget)
        return ModelProposer(models, here.heard, OneExample(), **options), servers[-1]

    yield make
    for server in servers:
        server.__exit__()
