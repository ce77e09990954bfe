"""Constraints come from kernels' files, and this process evaluates them: they cost it nothing but a little time."""

from __future__ import annotations

import tracemalloc

import pytest
from kernelwright.core.errors import SpaceError
from kernelwright.core.expressions import Expression

VALUES = {"A": 100_000, "M": "a"}


@pytest.mark.parametrize(
    "text",
    [
        "'a' * 99999999 == ''",
        "99999999 * 'a' == ''",
        "M * 99999999 == ''",
        "[0] * 9999999 == []",
        "(1,) * A * A == A",
        "'%99999999d' % 5 == ''",
        "'%y' % 1 == ''",
        "b'x' == A",
        "... == A",
        "1j * A == 2",
        "9" * 400 + " / 2 > A",
        "9" * 400 + " * 1.0 > A",
        "max([]) > A",
        "1+" * 20_000 + "1",
        "-" * 5_000 + "1",
        "1 if A else " * 3_000 + "1",
    ],
)
def test_what_would_fill_the_memory_or_fail_is_refused_in_one_line(text: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(SpaceError) as refused:
            Expression(text)(VALUES)
        assert tracemalloc.get_traced_memory()[1] < 20 << 20
    finally:
        tracemalloc.stop()
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("A * 3 % 7 == 300_000 % 7", True),
        ("A % 0 == 1", False),
        ("(A > 1) * 2 == 2", True),
        ("A * 0.5 == 50_000.0", True),
        ("M + 'b' == 'ab' and M in ['a', 'c']", True),
        ("-(A * 2) % 3 == 1", True),
        ("max(A * 2, 5) % 4 if M == 'a' else A", 0),
    ],
)
def test_numbers_are_multiplied_and_divided_as_in_python(text: str, found: object) -> None:
    assert Expression(text)(VALUES) == found


def test_a_parameter_may_have_any_name() -> None:
    assert Expression("Mult * Mod == 6")({"Mult": 2, "Mod": 3})
