"""What is expected of a rule: by narrow records where there are some, else by broad ones."""

from __future__ import annotations

import pytest
from kernelwright.agent.priors import MOST, NEVER_HELPED, UNKNOWN, archived_gains, expected, kinds_of, prior_of
from kernelwright.core import ArchivedRun, Experience

from ..made_up_runs import archived_run

KINDS = kinds_of("tilelang_cpu", "products", ("mm",), "level1/1_1")


def ran(rule: str, *gains: float, **changes: object) -> ArchivedRun:
    return archived_run(tried=tuple(Experience(technique=rule, gain=gain) for gain in gains), **changes)


def asked(*runs: ArchivedRun, rule: str = "r", kinds: tuple[str, ...] = KINDS) -> float:
    return prior_of(archived_gains(runs, "tilelang_cpu", "a CPU", "level1/1_1"))(rule, kinds)


def test_kinds_go_from_narrow_to_broad() -> None:
    assert KINDS == (
        "tilelang_cpu products matmul level1/1_1",
        "tilelang_cpu products matmul",
        "tilelang_cpu products",
    )
    assert kinds_of("triton", "streams")[1:] == ("triton streams unknown", "triton streams")


def test_gains_raise_what_is_expected_and_one_kernel_does_not_decide() -> None:
    assert expected([]) == UNKNOWN
    assert expected([2.0]) == pytest.approx((UNKNOWN * 2.0) ** 0.5)
    assert expected([1e6]) == expected([MOST])
    assert 1.0 < expected([0.5, 0.0]) < UNKNOWN
    assert expected([0.5, 0.0, 1.01]) == NEVER_HELPED
    assert expected([0.0, 0.0, 0.0, 3.0]) > 1.0


def test_nothing_is_known_of_a_rule_that_was_not_tried_or_on_another_backend() -> None:
    assert asked(ran("other", 2.0)) == UNKNOWN
    assert asked(ran("r", 2.0, backend="triton")) == UNKNOWN


def test_other_operations_of_the_same_work_count_where_nothing_narrower_is_known() -> None:
    other = ran("r", 2.0, problem="level2/2_10", operators=("convolution",))
    broad = asked(other)
    assert broad == pytest.approx(expected([2.0]), abs=1e-4)
    assert asked(other, ran("r", 3.0)) > broad
    assert asked(other, ran("r", 0.0, 0.0, 0.0)) == NEVER_HELPED
    assert asked(other, ran("r", 0.0, 0.0, 0.0), kinds=KINDS[2:]) > 1.0


def test_only_the_problem_itself_has_a_record_of_its_own() -> None:
    """The table goes into every journal."""
    gains = archived_gains([ran("r", 2.0), ran("r", 2.0, problem="level1/1_2")], "tilelang_cpu", "a CPU", "level1/1_1")
    assert set(gains) == set(KINDS)


def test_this_device_counts_more_than_others() -> None:
    elsewhere = ran("r", 3.0, 3.0, device="another")
    assert asked(elsewhere) > asked(elsewhere, ran("r", 1.0)) > 1.0
    assert asked(elsewhere, ran("r", 1.0, 0.9, 0.0)) == NEVER_HELPED


@pytest.mark.parametrize(
    ("gains", "least", "most"),
    [
        ([], UNKNOWN, UNKNOWN),
        ([0.0, 0.9, 1.01], NEVER_HELPED, NEVER_HELPED),
        ([0.0, 0.9], 1.001, UNKNOWN),
        ([0.0, 0.9, 1.5], 1.001, 1.5),
        ([100.0], UNKNOWN, 2.2),
    ],
)
def test_few_trials_say_little(gains: list[float], least: float, most: float) -> None:
    assert least <= expected(gains) <= most
