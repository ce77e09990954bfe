"""Records of parameter searches: which configs were measured, and how each fared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from ..core import Config, Correctness, Evaluation, Measurement, SearchSpace, SpaceError, Status


@dataclass(frozen=True, slots=True)
class Result:
    """How one config fared. A time exists exactly where the status is ok."""

    time_ms: float | None
    status: Status = Status.OK
    compile_s: float | None = None
    samples_ms: tuple[float, ...] = ()
    """The single timings, where the record has them; `time_ms` need not be their median."""

    @classmethod
    def of(cls, evaluation: Evaluation) -> Result:
        """What an evaluation says, its time the median of its samples."""
        samples = evaluation.measurement.samples_ms if evaluation.measurement else ()
        # A single sample is the time itself.
        return cls(evaluation.latency_ms, evaluation.status, evaluation.compile_s, samples if len(samples) > 1 else ())


Results = Mapping[Config, Result]


@dataclass(frozen=True)
class Recording:
    """The measured configs of one search, as a space of their own.

    `name` says where they come from; without a config that succeeded `SpaceError`.
    """

    results: Results
    name: str = "recording"
    _told: dict[Config, Evaluation] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.results:
            raise SpaceError(f"{self.name} holds no measured config; record a search first")
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
        """The fastest config and its time in milliseconds."""
        timed = ((config, result.time_ms) for config, result in self.results.items() if result.time_ms is not None)
        return min(timed, key=lambda pair: pair[1])

    def within(self, space: SearchSpace) -> list[tuple[Config, float | None]]:
        """The recorded configs that lie in another space, with their times, to warm a tuner up for it.

        `SpaceError` when the parameters have other names, or no config lies in that space.
        """
        if set(self.space.names) != set(space.names):
            raise SpaceError(
                f"{self.name} records the parameters {', '.join(self.space.names)}, but the space has "
                f"{', '.join(space.names)}; give a recording of the same parameters"
            )
        pairs = [(config, result.time_ms) for config, result in self.results.items() if config in space]
        if not pairs:
            raise SpaceError(f"no config of {self.name} lies in the space; give a recording that overlaps with it")
        return pairs

    def evaluation(self, config: Config) -> Evaluation:
        """The verdict that a tuner is told; `SpaceError` for a config that was not recorded."""
        if (told := self._told.get(config)) is None:
            told = self._told[config] = self._evaluation(config)
        return told

    def _evaluation(self, config: Config) -> Evaluation:
        if (result := self.results.get(config)) is None:
            raise SpaceError(f"{self.name} does not hold {config}; ask for members of its space only")
        time_ms = result.time_ms
        return Evaluation(
            status=result.status,
            kernel_digest=self.name,
            config=dict(config),
            message=f"failed when {self.name} was recorded" if time_ms is None else "",
            correctness=None if time_ms is None else _PASSED,
            measurement=None if time_ms is None else Measurement(samples_ms=(time_ms,), method="recorded"),
            compile_s=result.compile_s,
        )


# Who recorded a time vouches for the result: nothing can be compared any more, so no error is known.
_PASSED = Correctness(seeds=(0,), max_abs_error=0, max_rel_error=0, tolerance=0, passed=True)


def collect(source: Recording | Iterable[Evaluation], names: Sequence[str] = ()) -> Results:
    """The results of a recording or of a live search, for writing.

    `names` are the parameters to keep, by default all. Of two evaluations of a config the later one counts; those
    that were checked but not timed are left out.
    """
    if isinstance(source, Recording):
        results: dict[Config, Result] = dict(source.results)
    else:
        results = {Config(e.config): Result.of(e) for e in source if not (e.ok and e.measurement is None)}
    if not names and not results:
        raise SpaceError("there is nothing to write: no config was measured")
    names = names or tuple(next(iter(results)))
    if not names:
        raise SpaceError("there is nothing to write: the kernel has no parameters")
    return {_pick(config, names): result for config, result in results.items()}


def _pick(config: Config, names: Sequence[str]) -> Config:
    if lacking := [name for name in names if name not in config]:
        raise SpaceError(f"the config '{config}' has no {', '.join(lacking)}; all must name {', '.join(names)}")
    return Config((name, config[name]) for name in names)
