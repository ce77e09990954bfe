from __future__ import annotations

import pytest
from kernelwright.core import Config
from kernelwright.tuners.gemm.cover import best_for_all, cover
from kernelwright.tuners.gemm.rule import Leaf, Question, fit_rule
from kernelwright.tuners.gemm.shapes import Shape

SMALL, LARGE, MIDDLE = (Config({"BLOCK_SIZE_M": size}) for size in (16, 128, 64))
TIMES = {
    Shape(64, 64, 16): {SMALL: 1.0, LARGE: 4.0, MIDDLE: 1.5},
    Shape(64, 64, 32): {SMALL: 1.0, LARGE: 3.0, MIDDLE: 1.5},
    Shape(64, 64, 4096): {SMALL: 8.0, LARGE: 2.0, MIDDLE: 3.0},
}


def test_one_config_loses_least_two_lose_nothing() -> None:
    single = cover(TIMES, 1)
    assert single is not None and single.configs == (MIDDLE,)
    assert single.slowdown == pytest.approx(1.5) and single.worst == pytest.approx(1.5)
    two = cover(TIMES, 5)
    assert two is not None and set(two.configs) == {SMALL, LARGE}
    assert two.slowdown == pytest.approx(1.0)
    assert two.chosen[Shape(64, 64, 4096)] == LARGE


def test_a_config_that_was_not_measured_everywhere_may_serve_where_it_was() -> None:
    times = {Shape(64, 64, 16): {SMALL: 1.0}, Shape(64, 64, 32): {LARGE: 2.0}}
    assert cover(times, 1) is None
    assert best_for_all(times) is None
    two = cover(times, 2)
    assert two is not None and two.slowdown == 1.0
    assert cover({}, 1) is None


def test_the_rule_chooses_as_the_set_does() -> None:
    rule = fit_rule(TIMES, (SMALL, LARGE))
    assert isinstance(rule, Question) and (rule.extent, rule.bound) == ("M", 32)
    assert [rule.choose(m, 64, 64) for m in (1, 32, 33, 5000)] == [SMALL, SMALL, LARGE, LARGE]
    assert rule.lines({SMALL: "a", LARGE: "b"}) == ["if M <= 32:", "  a", "else:", "  b"]
    assert rule.to_json()["if"] == "M <= 32"


def test_one_config_needs_no_question() -> None:
    assert fit_rule(TIMES, (MIDDLE,)) == Leaf(MIDDLE)
