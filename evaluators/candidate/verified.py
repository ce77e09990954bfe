"""What is asked about one config of a candidate, and what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ...core import Config, Correctness, Rejection, Status
from ..workers.channel import Message


class Failure(Exception):
    """A candidate that did not pass, on its way to becoming an `Evaluation`."""

    def __init__(
        self,
        status: Status,
        message: str,
        correctness: Correctness | None = None,
        rejection: Rejection | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.correctness = correctness
        self.rejection = rejection
        self.config: Config | None = None
        """Which of several configs it was, where they are timed in turn."""


def rejected(rejection: Rejection) -> Failure:
    """The failure of a kernel that broke a rule."""
    return Failure(Status.REJECTED, str(rejection), rejection=rejection)


@dataclass(frozen=True)
class CheckPlan:
    """What is checked of one config."""

    seeds: tuple[int, ...]
    """One per trial: each has new weights and new inputs."""
    distributions: tuple[str, ...] = ()
    """Further trials, whose inputs are distributed otherwise."""
    thorough: bool = True
    """Also: held outputs, determinism, fp64, outputs that need no kernel."""


@dataclass
class VerifiedConfig:
    """A config that is loaded and was found right."""

    config: Config
    serial: int
    correctness: Correctness
    compile_s: float
    """Seconds that loading and compiling took."""
    weights: int
    """The seed of the weights that it was given last, and is timed with."""
    timed: list[tuple[int, int]] = field(default_factory=list)
    """Of the last chunk of timed calls: the seed of the inputs, and the number of the last call."""


class Comparisons:
    """What the comparisons of one config have found so far."""

    def __init__(self, seeds: Sequence[int]) -> None:
        self._seeds = tuple(seeds)
        self._compared: list[Message] = []
        self._distributions: list[str] = []
        self.deterministic: bool | None = None

    def add(self, verdict: Message, distribution: str | None) -> None:
        self._compared.append(verdict)
        if distribution is not None:
            self._distributions.append(distribution)

    def summary(self, passed: bool) -> Correctness | None:
        """None where nothing was compared; `passed` needs that something was."""
        if not self._compared:
            return None
        plain = len(self._compared) - len(self._distributions)
        first = self._compared[0]
        absolute, relative = (
            max(message[kind] for message in self._compared) for kind in ("absolute_tolerance", "tolerance")
        )
        return Correctness(
            seeds=self._seeds[:plain],
            max_abs_error=max(message["max_abs_error"] for message in self._compared),
            max_rel_error=max(message["max_rel_error"] for message in self._compared),
            tolerance=relative,
            absolute_tolerance=absolute if absolute != relative else None,
            passed=passed,
            distributions=tuple(self._distributions),
            error_fp64=first.get("error_fp64"),
            torch_error_fp64=first.get("torch_error_fp64"),
            trivial_outputs=tuple(first.get("trivial_outputs", ())),
            deterministic=self.deterministic,
        )
