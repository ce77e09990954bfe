"""Sizes that are free within a range: their arithmetic, and what is undecided."""

from __future__ import annotations

from typing import Any

import pytest
from kernelwright.core.dynamic_size import (
    DynamicSize,
    FreeSize,
    UndecidedSizeError,
    at_least_zero,
    at_most_quotient,
    divides,
    is_below,
    largest,
    typical,
)
from kernelwright.core.operator_graph import GraphValue

FREE = FreeSize("tokens", 1, 100)
TOKENS: Any = DynamicSize.of(FREE, (0, 1))


def test_its_text_is_an_expression_over_the_argument() -> None:
    assert f"{TOKENS}" == "size_tokens" and f"{[64 * TOKENS - 1]}" == "[(size_tokens * 64 - 1)]"
    assert eval(str(3 * TOKENS * TOKENS + 2), {"size_tokens": 7}) == 3 * 49 + 2


@pytest.mark.parametrize("value", [1, 2, 57, 100])
def test_quotients_are_those_of_every_value(value: int) -> None:
    for size, divisor in ((64 * TOKENS - 1, 64), (64 * TOKENS - 1, TOKENS), (TOKENS * TOKENS, TOKENS), (0, TOKENS)):
        at = [item.at(value) if isinstance(item, DynamicSize) else item for item in (size, divisor)]
        found = size // divisor, size % divisor
        assert [item.at(value) if isinstance(item, DynamicSize) else item for item in found] == list(divmod(*at))


def test_what_depends_on_the_value_is_undecided() -> None:
    turning = TOKENS * TOKENS - 50 * TOKENS  # the least within the range, not at its ends
    asked = [lambda: TOKENS < 50, lambda: TOKENS > 1, lambda: TOKENS // 3, lambda: at_least_zero(TOKENS - 7)]
    for ask in (*asked, lambda: largest(turning), lambda: turning > -50):
        with pytest.raises(UndecidedSizeError):
            ask()
    assert not is_below(TOKENS, 50) and is_below(TOKENS, 101) and TOKENS <= 100 and TOKENS > 0
    assert divides(32, 64 * TOKENS) and not divides(3, TOKENS) and divides(TOKENS, 5 * TOKENS)
    assert at_least_zero(TOKENS - 1) == TOKENS - 1 and at_least_zero(1 - TOKENS) == 0
    assert (
        at_most_quotient(TOKENS, 3) == 33 and largest(TOKENS * TOKENS - TOKENS) == 9900 and typical(2 * TOKENS) == 200
    )


def test_it_becomes_a_number_only_where_it_is_constant() -> None:
    assert TOKENS - TOKENS == 0 and (TOKENS + 5) - TOKENS == 5 and TOKENS != 100
    with pytest.raises(TypeError):
        range(TOKENS)
    with pytest.raises(TypeError):
        _ = 2.0 * TOKENS


def test_a_graph_keeps_it_as_json() -> None:
    value = GraphValue(name="view", operator="aten.view.default", arguments=([TOKENS, 4],), shapes=((TOKENS, 4),))
    again = GraphValue.model_validate_json(value.model_dump_json())
    assert again == value and again.size == 4 * TOKENS and again.arguments[0][0] == TOKENS
    with pytest.raises(ValueError, match="are no shapes"):
        GraphValue(name="x", operator="input", shapes=(("a",),))
