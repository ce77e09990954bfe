"""Configs are drawn no further ahead than compilers need."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future

import pytest
from kernelwright.core import Config
from kernelwright.evaluators.compilation.ahead import compiled_ahead
from kernelwright.evaluators.compilation.pool import CompileResult, CompileStatus

CONFIGS = [Config({"A": number}) for number in range(10)]


class Compilers:
    """Compile at once, and keep account of who is under way."""

    def __init__(self) -> None:
        self.drawn: list[Config] = []
        self.submitted: list[Config] = []

    def source(self) -> Iterator[Config]:
        for config in CONFIGS:
            self.drawn.append(config)
            yield config

    def submit(self, config: Config) -> Future[CompileResult]:
        self.submitted.append(config)
        future: Future[CompileResult] = Future()
        future.set_result(CompileResult(CompileStatus.COMPILED, digest=str(config)))
        return future


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("window", [1, 3, 20])
def test_all_in_order_each_with_its_own_result(window: int, together: bool) -> None:
    compilers = Compilers()
    found = list(compiled_ahead(compilers.source(), compilers.submit, window, together))
    assert [config for config, _ in found] == compilers.submitted == CONFIGS
    assert [compiled.digest for _, compiled in found] == [str(config) for config in CONFIGS]


def test_one_is_drawn_for_each_that_is_handed_out() -> None:
    compilers = Compilers()
    ahead = compiled_ahead(compilers.source(), compilers.submit, window=3, together=False)
    assert [len(compilers.drawn) for _ in ahead] == [3, 4, 5, 6, 7, 8, 9, 10, 10, 10]


def test_or_a_whole_window_when_the_last_one_is_used_up() -> None:
    compilers = Compilers()
    ahead = compiled_ahead(compilers.source(), compilers.submit, window=3, together=True)
    assert [len(compilers.drawn) for _ in ahead] == [3, 3, 3, 6, 6, 6, 9, 9, 9, 10]
