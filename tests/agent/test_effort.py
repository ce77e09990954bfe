"""How long a search may take."""

from __future__ import annotations

from kernelwright.agent.effort import LEAST_S, MOST, MOST_S, effort
from kernelwright.core import Budget, Config, SearchSpace

from ..fakes import evaluation, kernel

LARGE = SearchSpace.of({"A": range(1, 101), "B": range(1, 101)})


def budget(space: SearchSpace, compilers: int = 1, latency_ms: float = 1.0, compile_s: float | None = 1.0) -> Budget:
    timed = evaluation(kernel(latency_ms), Config(), latency_ms).model_copy(update={"compile_s": compile_s})
    return effort(space, timed, compilers)


def test_the_budget_follows_what_the_kernel_costs() -> None:
    small = SearchSpace.of({"A": [1, 2, 3]})
    assert (budget(small).trials, budget(LARGE).trials) == (3, MOST)
    middle = SearchSpace.of({"A": range(1, 11), "B": range(1, 11)})
    value = budget(middle).seconds or 0.0
    assert LEAST_S < (budget(middle, compilers=4).seconds or 0.0) < value
    four = budget(middle, compilers=4).seconds or 0.0
    assert four < (budget(middle, 4, latency_ms=3.0).seconds or 0.0) < (budget(middle, 4, compile_s=2.0).seconds or 0.0)
    assert budget(middle, compile_s=None) == budget(middle, compile_s=2.0)
    assert budget(small, compilers=64).seconds == LEAST_S
    assert budget(LARGE, compile_s=30.0).seconds == MOST_S
