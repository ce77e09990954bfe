"""Recordings of parameter searches: the measured configs and their results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import isfinite
from sys import float_info

from ..core import Config, Evaluation, SearchSpace, SpaceError, Status, Value


@dataclass(frozen=True, slots=True)
class RecordedResult:
    """The result of one config. A time exists exactly when the status is ok."""

    time_ms: float | None
    status: Status = Status.OK
    compile_s: float | None = None
    samples_ms: tuple[float, ...] = ()
    """The single timings, if recorded. `time_ms` need not be their median."""

    @classmethod
    def of(cls, evaluation: Evaluation) -> RecordedResult:
        """Return the result of an evaluation; its time is the median of its samples."""
        timed = evaluation.measurement if evaluation.ok else None
        samples = timed.samples_ms if timed else ()
        # A single sample is the time itself.
        several = samples if len(samples) > 1 else ()
        return cls(timed.median_ms if timed else None, evaluation.status, evaluation.compile_s, several)


Results = Mapping[Config, RecordedResult]


@dataclass(frozen=True)
class Recording:
    """The measured configs of one search, as a space of their own.

    `name` describes the source; raises `SpaceError` without a successful config.
    """

    results: Results
    name: str = "recording"
    kernel: str | None = None
    """Digest of the searched kernel, which only journals record."""
    _evaluations: dict[Config, Evaluation] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.results:
            raise SpaceError(f"{self.name} contains no measured config; record a search first")
        if any(not config for config in self.results):
            raise SpaceError(f"{self.name} has no parameters; a recording needs at least one")
        if all(result.time_ms is None for result in self.results.values()):
            raise SpaceError(f"every config of {self.name} failed; record a search in which at least one succeeds")

    @cached_property
    def space(self) -> SearchSpace:
        """The space of exactly the recorded configs."""
        try:
            return SearchSpace.listing(self.results)
        except SpaceError as error:
            raise SpaceError(f"{self.name}: {error}") from None

    @cached_property
    def best(self) -> tuple[Config, float]:
        """Return the fastest config and its time in milliseconds."""
        timed = ((config, result.time_ms) for config, result in self.results.items() if result.time_ms is not None)
        return min(timed, key=lambda pair: pair[1])

    def within(self, space: SearchSpace) -> list[tuple[Config, float | None]]:
        """Return the recorded configs that are in another space, with relative times, to warm a tuner up for it.

        A time is a multiple of this recording's best one, so at least 1.0, and None for a failure: milliseconds of
        other shapes and devices do not compare. Raises `SpaceError` when the parameters have other names, or no config
        is in that space.
        """
        if set(self.space.names) != set(space.names):
            raise SpaceError(
                f"{self.name} records the parameters {', '.join(self.space.names)}, but the space has "
                f"{', '.join(space.names)}; give a recording of the same parameters"
            )
        best_ms = self.best[1]
        pairs = [
            (config, None if result.time_ms is None else result.time_ms / best_ms)
            for config, result in self.results.items()
            if config in space
        ]
        if not pairs:
            raise SpaceError(f"no config of {self.name} is in the space; give a recording that overlaps with it")
        return pairs

    def evaluation(self, config: Config) -> Evaluation:
        """Return the recorded result as an evaluation; raises `SpaceError` for a config that was not recorded."""
        if (evaluation := self._evaluations.get(config)) is None:
            evaluation = self._evaluations[config] = self._evaluation(config)
        return evaluation

    def _evaluation(self, config: Config) -> Evaluation:
        if (result := self.results.get(config)) is None:
            raise SpaceError(f"{self.name} does not contain {config}; ask for members of its space only")
        return Evaluation.recorded(
            config,
            result.time_ms,
            status=result.status,
            message=f"failed when {self.name} was recorded",
            kernel_digest=self.name,
            compile_s=result.compile_s,
        )


def collect(source: Recording | Iterable[Evaluation], names: Sequence[str] = ()) -> Results:
    """Return the results of a recording or of a live search, for writing.

    `names` are the parameters to keep, by default all; those left out must be constant. Of two evaluations of a config
    the later one counts; those without timing are left out. Raises `SpaceError` when there is nothing to write, a
    config lacks a name, a value is not a finite number, or configs with different results would become equal.
    """
    if isinstance(source, Recording):
        results: dict[Config, RecordedResult] = dict(source.results)
    else:
        results = {Config(e.config): RecordedResult.of(e) for e in source if not (e.ok and e.measurement is None)}
    if not names and not results:
        raise SpaceError("there is nothing to write: no config was measured")
    names = names or tuple(next(iter(results)))
    if not names:
        raise SpaceError("there is nothing to write: the kernel has no parameters")
    picked: dict[Config, RecordedResult] = {}
    for config, result in results.items():
        if picked.setdefault(kept := _pick(config, names), result) != result:
            others = ", ".join(name for name in config if name not in names)
            raise SpaceError(f"configs with {kept} differ in {others}, and in their results; name {others} too")
    return picked


def _pick(config: Config, names: Sequence[str]) -> Config:
    """Return the config with these names only."""
    if lacking := [name for name in names if name not in config]:
        raise SpaceError(f"the config '{config}' has no {', '.join(lacking)}; all must name {', '.join(names)}")
    if endless := [name for name in names if not finite(config[name])]:
        raise SpaceError(f"parameter {endless[0]} has a value that is not a finite number; leave out such configs")
    return Config((name, config[name]) for name in names)


def finite(value: Value) -> bool:
    """Return whether a value is a text, or a number within a float's range: tuners compute with floats."""
    return isinstance(value, str) or abs(value) <= float_info.max


def integer(digits: str) -> int | float:
    """Return the integer of these digits, infinite if beyond a float: Python refuses to convert very long ones."""
    return int(digits) if isfinite(float(digits)) else float(digits)
