"""The plan for checking one config of a candidate, and its result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ...core import Config, Correctness, Measurement, Rejection, Replay, Status
from ...core.launch_plan import LaunchPlan
from ..correctness.distributions import OTHER_NUMBERS, OTHER_WEIGHTS
from ..workers.channel import Message

SIDE_EFFECTS = {
    "changed": ("input-changed", "input", "writes to an input, which belongs to the caller; work on a copy"),
    "returned": ("input-returned", "input", "returns an input's memory instead of its result; write to a new tensor"),
    "shared": ("output-reused", "output", "returns the same memory in two outputs; give each its own"),
}
"""By what is found: the rule, what it concerns, and why it is refused."""

WRITES_WEIGHTS = "writes to its weights; work on a copy"


class CandidateError(Exception):
    """A failed candidate; becomes an `Evaluation`."""

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
        """Index of the config at fault, where several are timed interleaved."""


def rejected(rejection: Rejection) -> CandidateError:
    """Return the failure of a kernel that broke a rule."""
    return CandidateError(Status.REJECTED, str(rejection), rejection=rejection)


def distribution_label(distribution: str) -> str:
    """Return what a failure says of inputs of another distribution, or of other weights."""
    if distribution == OTHER_WEIGHTS:
        return "with other weights than the initial ones"
    if distribution == OTHER_NUMBERS:
        return "with other whole numbers of the same range, or flags in another order"
    return f"with inputs of another distribution ({distribution})"


def trivial_output_in(verdict: Message) -> Rejection | None:
    """Return the rule that a comparison found broken: the result is trivial, and the reference's nearly so."""
    if not (verdict.get("trivial_output") and verdict["trivial_outputs"]):
        return None
    why = (
        f"returns {verdict['trivial_output']}, which is near enough to the reference to pass here; "
        "that needs no kernel and proves none"
    )
    return Rejection(rule="null-output", where="the output", why=why)


@dataclass(frozen=True)
class CheckPlan:
    """The checks of one config."""

    seeds: tuple[int, ...]
    """One per check: each has new weights and new inputs."""
    distributions: tuple[str, ...] = ()
    """Further checks, with inputs of other distributions."""
    thorough: bool = True
    """Whether to check held outputs and determinism too."""
    precise: bool = True
    """Whether the first check compares with fp64, and looks for trivial outputs that would have passed."""

    @property
    def weights(self) -> int:
        """The seed of the weights after the last check."""
        return self.seeds[0 if self.thorough else -1]


@dataclass(frozen=True)
class RecordedPlan:
    """A launch plan from a candidate's process, and where the constants lie that it names."""

    plan: LaunchPlan
    constants: list[Message]
    path: Path
    integers: int | None = None
    """The seed of the integers that it holds for; None where it holds for any."""
    reads: bool = False
    """Whether the call was seen to read integers into Python."""


@dataclass(frozen=True)
class HandedPlan:
    """The number of a plan in the process that replays it, and the seed of the integers that it holds for, if any."""

    number: int
    integers: int | None = None


@dataclass
class VerifiedConfig:
    """A loaded config that is correct."""

    config: Config
    serial: int
    correctness: Correctness
    compile_s: float
    """Seconds of loading and compiling."""
    weights: int
    """The seed of its current weights, which it is timed with."""
    timed: list[tuple[int, int]] = field(default_factory=list)
    """Seed of the inputs and number of the last call, of the last chunk of timed calls."""
    replay: Replay | None = None
    """Whether it is timed by replaying its launch plan; None where that was not tried."""
    host_ms: float | None = None
    """Host time of a call without its replayed plan; the mean where there are several."""
    launches: dict[str, int] = field(default_factory=dict)
    """Launches of a replayed plan, by kernel; of the first where there are several."""
    plans: tuple[HandedPlan, ...] = ()
    """Plans that were handed over; several if launches depend on integers of the inputs."""
    depends_on: str = ""
    """What the launches depend on in addition to sizes, as a sentence."""
    packs: bool = False
    """Whether its plan packs weights, once for each set of them."""
    packing: Measurement | None = None
    """Time of packing the weights, if it was measured."""
    library: tuple[str, ...] = ()
    """Torch's operators that compute in a call."""
    sanitizer: dict[str, str] = field(default_factory=dict)
    """Findings of compute-sanitizer's tools, if they ran."""

    def __post_init__(self) -> None:
        self.plans = self.plans or (HandedPlan(self.serial),)

    @property
    def host_us(self) -> float | None:
        """The same in microseconds, as an evaluation has it."""
        return None if self.host_ms is None else round(self.host_ms * 1e3, 1)

    @property
    def replayed(self) -> bool:
        """Whether it is timed by replaying its launch plan."""
        return self.replay is not None and self.replay.replayed


class Comparisons:
    """The results of one config's comparisons so far."""

    def __init__(self, seeds: Sequence[int]) -> None:
        self._seeds = tuple(seeds)
        self._compared: list[Message] = []
        self._own: list[Message] = []
        self._distributions: list[str] = []
        self.deterministic: bool | None = None

    def add(self, verdict: Message, distribution: str | None) -> None:
        """Add the result of one comparison."""
        self._compared.append(verdict)
        if distribution is None:
            self._own.append(verdict)
        else:
            self._distributions.append(distribution)

    def summary(self, passed: bool) -> Correctness | None:
        """Return the correctness metrics, or None where nothing was compared; `passed` needs a comparison."""
        if not self._compared:
            return None
        first = self._compared[0]
        absolute, relative = (
            max(message[kind] for message in self._compared) for kind in ("absolute_tolerance", "tolerance")
        )
        return Correctness(
            seeds=self._seeds[: len(self._own)],
            max_abs_error=max(message["max_abs_error"] for message in self._compared),
            max_rel_error=max(message["max_rel_error"] for message in self._compared),
            own_errors=(
                max(message["max_abs_error"] for message in self._own),
                max(message["max_rel_error"] for message in self._own),
            )
            if self._own
            else None,
            tolerance=relative,
            absolute_tolerance=absolute if absolute != relative else None,
            passed=passed,
            distributions=tuple(self._distributions),
            error_fp64=first.get("error_fp64"),
            torch_error_fp64=first.get("torch_error_fp64"),
            beside_start=next(filter(None, (message.get("beside_start", "") for message in self._compared)), ""),
            trivial_outputs=tuple(first.get("trivial_outputs", ())),
            deterministic=self.deterministic,
        )
