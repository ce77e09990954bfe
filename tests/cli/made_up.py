"""`tune kernel` with an evaluator that makes its verdicts up: no compiler, no clock, no other process."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from kernelwright.cli.main import app
from kernelwright.core import Config, Evaluation, Kernel, Problem, Profile, Tuner
from kernelwright.evaluators.waiting import WorkingClock
from kernelwright.runtime import runtime
from kernelwright.tuners import catalogue
from typer.testing import CliRunner

from ..fakes import PROFILE, evaluation
from .commands import SCALE

ENVIRONMENT = {"device": "an abacus", "torch": "0.0"}
Answer = float | str


def faster_when_larger(config: Config) -> Answer:
    return 100.0 / int(config["BLOCK"])


class MadeUp:
    """Says what `answer` says of each config; what is raised in there ends the search."""

    def __init__(self, answer: Callable[[Config], Answer] = faster_when_larger) -> None:
        self.answer = answer
        self.asked_for: tuple[object, ...] = ()
        """Devices, compilers, adaptive, settings, other machines."""
        self.created: dict[str, Any] = {}
        """What the tuner was made from."""
        self.measured: list[Config] = []

    def evaluate(
        self, problem: Problem, kernel: Kernel, configs: Iterable[Config], known: Sequence[Evaluation] = ()
    ) -> Iterator[Evaluation]:
        for config in configs:
            found = self._evaluation(kernel, config)
            self.measured.append(config)
            yield found.model_copy(update={"reference": None})

    def compare(self, problem: Problem, kernel: Kernel, configs: Sequence[Config]) -> list[Evaluation]:
        return [self._evaluation(kernel, config) for config in configs]

    def profile(self, problem: Problem) -> Profile:
        return PROFILE

    def _evaluation(self, kernel: Kernel, config: Config) -> Evaluation:
        made_up = evaluation(kernel, config, self.answer(config or kernel.config))
        return made_up.model_copy(update={"environment": ENVIRONMENT})

    def __enter__(self) -> MadeUp:
        return self

    def __exit__(self, *_: object) -> None: ...


def install(made_up: MadeUp, monkeypatch: pytest.MonkeyPatch) -> MadeUp:
    """Put it in the place of this machine's evaluator, and note what it and the tuner are made from."""

    def search_evaluator(*arguments: object, kept: None, clock: WorkingClock | None = None) -> MadeUp:
        made_up.asked_for = arguments
        return made_up

    create = catalogue.create_tuner

    def noting(*arguments: Any, **named: Any) -> Tuner:
        made_up.created = dict(inspect.signature(create).bind(*arguments, **named).arguments)
        return create(*arguments, **named)

    monkeypatch.setattr(runtime, "search_evaluator", search_evaluator)
    monkeypatch.setattr(catalogue, "create_tuner", noting)
    return made_up


def tuned_here(*arguments: object) -> Result:
    """`kernelwright tune kernel 1_999.py` within this process."""
    return CliRunner().invoke(app, ["tune", "kernel", "1_999.py", *SCALE, *map(str, arguments)])


def summary_of(run: Result, *exit_codes: int) -> dict[str, Any]:
    """The one object that --json prints; 3 where no config is faster than the kernel's own."""
    assert run.exit_code in (exit_codes or (0, 3)), run.output
    found: dict[str, Any] = json.loads(run.stdout)
    return found


def summary_in(folder: Path) -> dict[str, Any]:
    """The summary that the only search in a folder has left."""
    (path,) = (folder / "results").rglob("summary.json")
    found: dict[str, Any] = json.loads(path.read_text())
    return found
