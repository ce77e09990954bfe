"""The remote end: a local evaluator that stays warm as long as payloads come."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from ... import __version__
from ...core import Config, Evaluation, KernelwrightError, Problem, known_languages
from ...core.files import cache_folder
from ..local import LocalEvaluator
from ..settings import Settings
from .payload import Payload, Response, What, failure

KEPT = 3
"""Number of evaluators with different settings that a host keeps: for searches, full evaluations and last checks."""


class WorkerHost:
    """Runs payloads on one device of this machine.

    Evaluators and their processes are kept between payloads.
    """

    def __init__(self, device: str) -> None:
        self.device = device
        self._evaluators: dict[Settings, LocalEvaluator] = {}

    def run(self, payload: Payload) -> list[Response]:
        """Return one response per config, or the profile; a user's mistake is the last response."""
        responses: list[Response] = []
        try:
            responses.extend(self._responses(payload))
        except KernelwrightError as error:
            responses.append(failure(error))
        return responses

    def warm(self, settings: Settings) -> dict[str, str]:
        """Import what evaluations need; return the versions that both ends must share."""
        self._evaluator(settings).processes.servers.load(known_languages())
        return versions()

    def close(self) -> None:
        """End all processes and remove their folders."""
        while self._evaluators:
            self._evaluators.popitem()[1].close()

    def _responses(self, payload: Payload) -> Iterator[Response]:
        problem = payload.problem.problem()
        evaluator = self._evaluator(payload.settings)
        if payload.what is What.PROFILE:
            yield {"profile": evaluator.profile(problem).model_dump(mode="json")}
            return
        for evaluation in self._evaluations(payload, problem, evaluator):
            yield {"evaluation": evaluation.model_dump(mode="json", exclude_none=True)}

    def _evaluations(self, payload: Payload, problem: Problem, evaluator: LocalEvaluator) -> Iterable[Evaluation]:
        if payload.what is What.CONTEST:
            return evaluator.contest(problem, [item.kernel() for item in payload.kernels])
        assert payload.kernel is not None
        kernel = payload.kernel.kernel()
        configs = [Config(config) for config in payload.configs]
        if payload.what is What.COMPARE:
            return evaluator.compare(problem, kernel, configs)
        return evaluator.evaluate(problem, kernel, configs, payload.known)

    def _evaluator(self, settings: Settings) -> LocalEvaluator:
        if settings not in self._evaluators:
            if len(self._evaluators) == KEPT:
                self._evaluators.pop(next(iter(self._evaluators))).close()
            self._evaluators[settings] = LocalEvaluator(self.device, settings, cache_folder())
        return self._evaluators[settings]


def versions() -> dict[str, str]:
    """Return what both ends must share: the version of kernelwright, and a digest of its evaluating code."""
    root = Path(__file__).parents[2]
    digest = hashlib.sha256()
    for path in sorted(path for folder in ("core", "evaluators") for path in (root / folder).rglob("*.py")):
        digest.update(path.read_bytes())
    return {"version": __version__, "source": digest.hexdigest()[:12]}
