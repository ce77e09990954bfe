"""Where programs share results: the start gives multiprocessors work, and enough tiles are left alone."""

from __future__ import annotations

import pytest
from kernelwright.core.expressions import Expression
from kernelwright.corpus.structures.indices import Index, Symbol
from kernelwright.corpus.structures.products.space import ProductSizes, space


@pytest.mark.parametrize(
    ("batch", "m", "n", "k", "start"),
    [
        (1, 16, 4096, 4096, 1),  # 128 tiles of 32 columns
        (1, 16, 1024, 8192, 16),  # 16 tiles of 64 columns
        (1, 64, 512, 4096, 16),
        (1, 16, 64, 1024, 4),  # 256 terms each
        (1, 4096, 4096, 4096, None),
        (64, 1, 256, 4096, 1),
        (1, 16, 64, 256, None),
    ],
)
def test_long_sums_of_few_tiles_are_shared(batch: int, m: int, n: int, k: int, start: int | None) -> None:
    parameters, constraints = space(ProductSizes(batch, m, n, k, count=1, operand_bytes=2, operands=2))
    found = parameters.get("SPLITS")
    assert (found.start if found else None) == start
    values = {name: item.start for name, item in parameters.items()}
    assert all(item.start in item.choices for item in parameters.values())
    assert all(Expression(text)(values) for text in constraints)


def test_a_sum_of_parts_is_taken_apart_at_the_parts() -> None:
    pack, row = Index.of(Symbol("pack", 16)), Index.of(Symbol("row", 4))
    head = pack.times(4).plus(row)
    assert head.modulo(32).text == "((pack) % 8) * 4 + row" and head.over(32).text == "((pack) // 8)"
    assert head.modulo(32).over(4).text == "((pack) % 8)", "heads of a group share keys"
    for number in range(64):
        names = {"pack": number // 4, "row": number % 4}
        assert eval(head.modulo(32).text, names) == number % 32 and eval(head.over(32).text, names) == number // 32
