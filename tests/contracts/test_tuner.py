"""What every tuner of the catalogue promises: the published suites, with small models."""

from __future__ import annotations

import pytest
from kernelwright.testing import AdaptiveTunerSuite, SeededTunerSuite, TunerSuite
from kernelwright.tuners import catalogue, cost_model, portfolio
from kernelwright.tuners.catalogue import TunerEntry

from ..tuners.launching import entry_by_launch


@pytest.fixture(autouse=True)
def _small_models(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a tuner promises does not depend on how well its models predict, but for what it finds."""
    if request.function.__name__ != AdaptiveTunerSuite.test_beats_chance_on_a_bowl.__name__:
        monkeypatch.setattr(cost_model, "ROUNDS", 6)
        monkeypatch.setattr(cost_model, "MEMBERS", 2)
        monkeypatch.setattr(portfolio, "CANDIDATES", 200)


class TestAdaptive(AdaptiveTunerSuite):
    @pytest.fixture(params=[name for name in catalogue.names() if catalogue.adaptive(name)])
    def entry(self, request: pytest.FixtureRequest) -> TunerEntry:
        return catalogue.entry(request.param)


class TestByLaunch(AdaptiveTunerSuite):
    @pytest.fixture(params=[(name, times) for name in ("portfolio", "hill_climb") for times in (True, False)], ids=str)
    def entry(self, request: pytest.FixtureRequest) -> TunerEntry:
        return entry_by_launch(*request.param)


class TestRandom(SeededTunerSuite):
    @pytest.fixture
    def entry(self) -> TunerEntry:
        return catalogue.entry("random")


class TestExhaustive(TunerSuite):
    @pytest.fixture(params=[name for name in catalogue.names() if catalogue.exhaustive(name)])
    def entry(self, request: pytest.FixtureRequest) -> TunerEntry:
        return catalogue.entry(request.param)


def test_every_tuner_is_tested() -> None:
    left = [name for name in catalogue.names() if not (catalogue.adaptive(name) or catalogue.exhaustive(name))]
    assert left == ["random"]
