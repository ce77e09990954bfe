"""Whom the portfolio asks, in which order, and what it makes of the answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import pytest
from kernelwright.core import Config, SearchSpace
from kernelwright.core.encoded_space import Rows
from kernelwright.tuners import portfolio
from kernelwright.tuners.gaussian_process import GaussianProcess
from kernelwright.tuners.observations import Floats
from kernelwright.tuners.portfolio import FIRST, POINTS, WARM, WARM_DIVERSE, Portfolio
from kernelwright.tuners.start import Warm

from ..fakes import evaluation, kernel

SPACE = SearchSpace.of({"A": list(range(10)), "B": list(range(10)), "C": list(range(10))})
KERNEL = kernel(1.0)
Score = Callable[[Rows], Floats]


def config(a: int, b: int, c: int) -> Config:
    return Config({"A": a, "B": b, "C": c})


BEST = config(5, 5, 5)
WARMTH: Warm = [(config(a, a, a), 1.0 + a) for a in range(10)]


def off(config: Config) -> float:
    """How far from the best, in steps."""
    return float(sum(abs(int(value) - 5) for value in config.values()))


def scored(**scores: float) -> Score:
    """Rows by their digits, `_555=1.0`; all others have 0."""

    def score(rows: Rows) -> Floats:
        return np.array([scores.get("_" + "".join(map(str, row)), 0.0) for row in rows.tolist()])

    return score


NOTHING = scored()


def first_proposal(
    monkeypatch: pytest.MonkeyPatch,
    trees: Score = NOTHING,
    mean: Score = NOTHING,
    promise: Score = NOTHING,
    warm: Warm = (),
    pending: Sequence[Config] = (),
    chance: float = 0.0,
) -> list[str]:
    """The digits of four configs that are proposed when little else than the best is known, by models as told."""
    monkeypatch.setattr(portfolio, "CHANCE", chance)
    monkeypatch.setattr(portfolio, "diverse", lambda space, count, rng: space.encoded.rows([]))
    tuner = Portfolio(SPACE, 0, [BEST, *pending], warm)
    monkeypatch.setattr(tuner, "_predict", lambda rows: (trees(rows), mean(rows), promise(rows)))
    for config in tuner.ask(len(tuner._queue)):
        if config not in pending:
            tuner.tell(config, evaluation(KERNEL, config, 1.0 + off(config)))
    return ["".join(str(value) for value in config.values()) for config in tuner.ask(4)]


def test_the_most_promising_then_a_neighbour_then_the_trees_favourite(monkeypatch: pytest.MonkeyPatch) -> None:
    found = first_proposal(
        monkeypatch,
        trees=scored(_558=-1.0, _123=-5.0),
        mean=scored(_558=-1.0, _585=-1.5, _321=-9.0),
        promise=scored(_777=3.0, _222=2.5, _333=2.0),
    )
    assert found == ["777", "222", "558", "123"]


def test_after_a_warm_start_neighbours_first(monkeypatch: pytest.MonkeyPatch) -> None:
    found = first_proposal(
        monkeypatch,
        trees=scored(_123=-5.0),
        mean=scored(_558=-1.0, _585=-1.5),
        promise=scored(_777=3.0, _221=2.5),
        warm=[(config(0, 0, 0), 1.0)],
    )
    assert found == ["585", "558", "777", "123"]


def test_the_two_most_promising_are_not_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measuring one says much about the other; the farther away, the less it must promise to be chosen instead."""
    found = first_proposal(monkeypatch, promise=scored(_777=3.0, _778=2.9, _788=2.3, _222=2.25))
    assert found[:2] == ["777", "222"]
    found = first_proposal(monkeypatch, promise=scored(_777=3.0, _778=2.9, _788=2.5, _222=2.25))
    assert found[:2] == ["777", "788"]
    found = first_proposal(monkeypatch, promise=scored(_777=3.0, _778=2.99, _788=2.3, _222=2.25))
    assert found[:2] == ["777", "778"]


def test_what_is_next_to_a_pending_one_must_promise_more(monkeypatch: pytest.MonkeyPatch) -> None:
    promise = scored(_778=3.0, _222=2.5)
    assert first_proposal(monkeypatch, promise=promise)[0] == "778"
    assert first_proposal(monkeypatch, promise=promise, pending=[config(7, 7, 7)])[0] == "222"


def test_a_share_is_drawn_by_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    promise = scored(_777=3.0)
    assert first_proposal(monkeypatch, promise=promise)[0] == "777"
    assert "777" not in first_proposal(monkeypatch, promise=promise, chance=1.0)


def test_neighbours_of_the_best_are_candidates_whatever_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(portfolio, "CANDIDATES", 1)
    assert "558" in first_proposal(monkeypatch, mean=scored(_558=-1.0))


class Sure:
    """A process that predicts as told."""

    scales = np.zeros(1)

    def __init__(self, mean: Sequence[float], deviation: Sequence[float]) -> None:
        self.told = np.array(mean), np.array(deviation)

    def __call__(self, features: Floats) -> tuple[Floats, Floats]:
        return self.told


@pytest.mark.parametrize(
    ("mean", "deviation", "most"),
    [
        ((2.0, 1.0, 3.0), (0.5, 0.5, 0.5), 1),
        ((2.0, 2.0, 2.0), (0.5, 0.1, 0.9), 2),
        ((1.0, 0.9, 1.5), (1.0, 0.1, 0.1), 0),
    ],
)
def test_what_promises_most_is_fast_or_unknown(
    mean: Sequence[float], deviation: Sequence[float], most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    tuner = Portfolio(SPACE, 0, [BEST])
    tuner.tell(BEST, evaluation(KERNEL, BEST, 3.0))
    monkeypatch.setattr(portfolio, "GaussianProcess", lambda *_: Sure(mean, deviation))
    predicted, promise = tuner._process(np.array([1.0]), SPACE.encoded.rows([BEST] * 3))
    assert predicted.tolist() == list(mean)
    assert np.argmax(promise) == most


def before_the_first_model(monkeypatch: pytest.MonkeyPatch, warm: Warm, start: Sequence[Config] = ()) -> list[Config]:
    """What is asked for until the portfolio has to think."""
    tuner = Portfolio(SPACE, 0, start, warm)
    monkeypatch.setattr(tuner, "_propose", list)
    return tuner.ask(1000)


def test_so_many_configs_come_before_the_first_model(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(before_the_first_model(monkeypatch, ())) == FIRST
    assert len(before_the_first_model(monkeypatch, (), [BEST])) == FIRST
    warm = before_the_first_model(monkeypatch, WARMTH)
    assert len(warm) == WARM + WARM_DIVERSE
    assert warm[:WARM] == [config for config, _ in WARMTH[:WARM]]
    # What was measured elsewhere comes before all starts but the first.
    starts = [config(9, 9, 8), config(1, 2, 3)]
    assert before_the_first_model(monkeypatch, WARMTH, starts)[: WARM + 2] == [starts[0], *warm[:WARM], starts[1]]


@pytest.mark.parametrize("unusable", [[(config(1, 1, 1), None)], [(config(77, 1, 1), 1.0)], [(Config({"Z": 1}), 1.0)]])
def test_a_warm_start_with_nothing_usable_is_none(unusable: Warm, monkeypatch: pytest.MonkeyPatch) -> None:
    assert before_the_first_model(monkeypatch, unusable) == before_the_first_model(monkeypatch, ())
    promise, mean = scored(_777=3.0), scored(_558=-1.0)
    assert first_proposal(monkeypatch, promise=promise, mean=mean, warm=unusable)[0] == "777"


class Watched(GaussianProcess):
    """Remembers what it was fitted to, and whether its scales were fitted."""

    fits: list[tuple[Floats, bool]]

    def __init__(self, features: Floats, targets: Floats, scales: Floats | None = None) -> None:
        self.fits.append((targets, scales is None))
        super().__init__(features, targets, scales)


def searched(monkeypatch: pytest.MonkeyPatch, count: int) -> list[tuple[Floats, bool]]:
    """The fits of so many trials."""
    monkeypatch.setattr(portfolio, "GaussianProcess", Watched)
    monkeypatch.setattr(Watched, "fits", [], raising=False)
    tuner = Portfolio(SPACE, 0)
    for trial in range(count):
        (config,) = tuner.ask()
        # The best comes early, and later ones are all slower: only for its time it is kept.
        tuner.tell(config, evaluation(KERNEL, config, 1.0 + off(config) + trial / 10))
    return Watched.fits


def test_scales_are_fitted_again_as_more_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(portfolio, "GROWTH", 1.5)
    fits = searched(monkeypatch, 60)
    fits_again = [len(targets) for targets, fitted in fits if fitted]
    assert 3 <= len(fits_again) < len(fits)
    assert all(later >= 1.5 * earlier for earlier, later in pairwise(fits_again))


def test_the_process_keeps_the_best_and_the_latest(monkeypatch: pytest.MonkeyPatch) -> None:
    assert POINTS > 40
    monkeypatch.setattr(portfolio, "POINTS", 40)
    kept = [targets for targets, _ in searched(monkeypatch, 90)]
    assert max(map(len, kept)) <= 40
    assert len(kept[-1]) > 20
    assert all(later.min() <= earlier.min() for earlier, later in pairwise(kept))
