"""The search by the launch: what is tried at once, who is to blame for a failure, what the end compares."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from kernelwright.core import Budget, Config, Evaluation, Journal, Kernel, SearchSpace, Trial, Value
from kernelwright.testing.tuner import drive
from kernelwright.tuners import catalogue
from kernelwright.tuners.by_launch.creation import tuner_for
from kernelwright.tuners.by_launch.tuner import UNTIMED, ByLaunch
from kernelwright.tuners.search import Found, Search

from ..fakes import PROBLEM
from .launching import answering, split_kernel, timed_launches
from .searching import Clock, Table

VALUES = [1, 2, 3, 4, 5, 6, 7, 8]
SPACE = SearchSpace.of(dict.fromkeys("ABCD", VALUES))
KERNEL = split_kernel(SPACE)
BEST = {"A": 6, "B": 2, "C": 7, "D": 5}


def bowl(name: str, value: Value) -> float:
    """The farther from the best the slower; of A the most, of D the least."""
    return (4 - "ABCD".index(name)) * (1 + abs(int(value) - BEST[name]))


def tuner(name: str = "hill_climb", seed: int = 0, start: Config | None = None) -> ByLaunch:
    found = tuner_for(KERNEL, name, SPACE, seed, start=[start or SPACE.default])
    assert isinstance(found, ByLaunch)
    return found


def asked_until_best(asking: object, answer: Callable[[Config], Evaluation], most: int = 1000) -> int:
    asked = drive(asking, answer=answer, most=most)  # type: ignore[arg-type]
    return asked.index(Config(BEST)) + 1 if Config(BEST) in asked else most + 1


def test_only_a_tuner_that_learns_searches_by_the_launch() -> None:
    assert not isinstance(tuner_for(KERNEL, "random", SPACE), ByLaunch)
    assert not isinstance(tuner_for(KERNEL, "grid", SPACE), ByLaunch)
    whole = SearchSpace.of(dict.fromkeys("ABCD", VALUES), ["A + B + C + D < 99"])
    assert not isinstance(tuner_for(KERNEL, "hill_climb", whole), ByLaunch)
    assert str(tuner()) == "a (1 parameter), b (1), c (1), d (1)"


@pytest.mark.parametrize("name", ["portfolio", "hill_climb"])
def test_finds_the_best_of_each_launch_in_a_fraction_of_the_trials(name: str) -> None:
    """Every trial tells each launch its own time: the 8 values of each are soon known, of 4096 configs."""
    for seed in range(3):
        assert asked_until_best(tuner(name, seed), answering(bowl), most=40) <= 40
    joint = [catalogue.create_tuner(name, SPACE, seed, start=[SPACE.default]) for seed in range(3)]
    assert sum(asked_until_best(item, answering(bowl), most=40) for item in joint) > 3 * 25


def test_a_failed_part_is_found_and_not_asked_for_again() -> None:
    """Of each launch one value fails: a trial with two of them tells nothing until they are tried alone."""

    def time(name: str, value: Value) -> float | None:
        return None if value == 3 else bowl(name, value)

    asked = drive(tuner(), answer=answering(time), most=17)
    assert Config(BEST) in asked
    for name in "ABCD":
        assert 1 <= sum(config[name] == 3 for config in asked) <= 2, "once with others, once alone"


def test_the_more_parts_fail_the_fewer_are_tried_at_once() -> None:
    asking = tuner()
    assert asking._at_once(4) >= 2
    for item in asking._groups:
        item.failed |= {Config({item.group.space.names[0]: value}) for value in VALUES[:4]}
        item.times |= {Config({item.group.space.names[0]: value}): [1.0] for value in VALUES[4:]}
    assert asking._at_once(4) == 1


def test_the_fastest_parts_are_tried_together_before_the_end() -> None:
    """A trial of parts that are all known: the search needs whole configs that are fast, not only parts."""
    asked = drive(tuner(), answer=answering(bowl), most=8)
    seen: dict[str, set[Value]] = {name: set() for name in "ABCD"}
    together = []
    for config in asked:
        together += [config] if all(config[name] in seen[name] for name in "ABCD") else []
        for name in "ABCD":
            seen[name].add(config[name])
    assert 1 <= len(together) <= 2


def test_trials_go_where_the_time_goes() -> None:
    """With failures that let few parts be tried at once, the launch that takes nearly all of the time has most."""
    space = SearchSpace.of({"A": list(range(200)), "B": list(range(200))})
    asking = tuner_for(split_kernel(space), "hill_climb", space, start=[space.default])

    def time(name: str, value: Value) -> float | None:
        if int(value) % 3 == 1:
            return None
        return (50.0 if name == "B" else 1.0) * (1 + abs(int(value) - 150) / 200)

    asked = drive(asking, answer=answering(time), most=80)
    assert len({config["B"] for config in asked}) > 2 * len({config["A"] for config in asked})


def test_without_the_times_of_launches_the_whole_space_is_searched() -> None:
    asking = tuner()

    def whole(config: Config) -> Evaluation:
        return answering(bowl)(config).model_copy(update={"launches_ms": {}})

    asked = drive(asking, answer=whole, most=60)
    joint = catalogue.create_tuner("hill_climb", SPACE, start=[SPACE.default])
    for config in asked[:UNTIMED]:
        joint.tell(config, whole(config))
    expected = drive(joint, answer=whole, most=60 - UNTIMED)
    assert asked[UNTIMED:] == [config for config in expected if config not in asked[:UNTIMED]][: 60 - UNTIMED]


class Timed(Table):
    """Answers searches with the times of launches too; finalists take what `together_ms` adds where all are best."""

    def __init__(self, slower: float = 1.0) -> None:
        super().__init__(lambda config: 0.0)
        self._slower = slower

    def _evaluate(self, kernel: Kernel, configs: object) -> object:  # type: ignore[override]
        for config in configs:  # type: ignore[attr-defined]
            self.measured.append(config)
            yield self._answer(kernel, config)

    def compare(self, problem: object, kernel: Kernel, configs: object) -> list[Evaluation]:  # type: ignore[override]
        self.compared.append(list(configs))  # type: ignore[call-overload]
        found = []
        for config in self.compared[-1]:
            whole = self._answer(kernel, config or SPACE.default).model_copy(update={"config": dict(config)})
            if config == BEST:
                whole = timed_launches(config, {"all": (whole.latency_ms or 0.0) * self._slower})
            found.append(whole.model_copy(update={"kernel_digest": kernel.digest}))
        return found

    @staticmethod
    def _answer(kernel: Kernel, config: Config) -> Evaluation:
        return answering(bowl)(config).model_copy(update={"kernel_digest": kernel.digest})


def searched(path: Path, table: Table, trials: int, name: str = "hill_climb") -> Found:
    with Journal(path) as journal:
        asking = tuner_for(KERNEL, name, SPACE, start=[SPACE.default])
        budget = Budget(trials=trials)
        return Search(PROBLEM, KERNEL, SPACE, asking, table, journal, budget, clock=Clock()).run()


def test_a_resumed_search_goes_on_and_measures_nothing_twice(tmp_path: Path) -> None:
    path, first, second, whole = tmp_path / "journal.jsonl", Timed(), Timed(), Timed()
    searched(path, first, 8)
    found = searched(path, second, 30)
    assert not set(first.measured) & set(second.measured)
    assert len(first.measured) + len(second.measured) == 30
    assert found.best is not None and found.best.config == BEST
    with Journal(path) as journal:
        assert all(t.evaluation.launches_ms for t in journal.of(Trial) if t.origin == "search")
    assert searched(tmp_path / "other.jsonl", whole, 30).best == found.best


def test_the_end_compares_the_fastest_parts_together(tmp_path: Path) -> None:
    """Also where they were never in one trial."""
    never = 0
    for trials in range(9, 14):
        table = Timed()
        found = searched(tmp_path / f"{trials}.jsonl", table, trials)
        asking = tuner()
        for evaluation in found.evaluations:
            asking.tell(Config(evaluation.config), evaluation)
        together = asking.together()
        never += together not in [evaluation.config for evaluation in found.evaluations]
        assert together in table.compared[0]
    assert never


def test_the_end_says_where_launches_interact(tmp_path: Path) -> None:
    assert "interact" not in searched(tmp_path / "a.jsonl", Timed(1.01), 40).stopped
    stopped = searched(tmp_path / "b.jsonl", Timed(1.2), 40).stopped
    assert stopped.endswith(
        "the launches interact: the fastest parameters of each take 20% longer together than apart"
    ), stopped
