"""Parsing by several threads at a time."""

from __future__ import annotations

import ast
import gc
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from kernelwright.core.syntax_tree import expression_tree, literal, syntax_tree

SOURCE = "\n".join(f"def f{number}(a, b): return [a * (b + {number}) for a in range(b)]" for number in range(40))


class _Finalized:
    """Garbage whose finalizer runs Python code, so that the thread may change in the middle of a parse."""

    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        sum(range(50))


@pytest.fixture
def threads_that_change_often() -> Iterator[None]:
    interval, thresholds = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(1e-6)
    gc.set_threshold(20)
    yield
    sys.setswitchinterval(interval)
    gc.set_threshold(*thresholds)


@pytest.mark.usefixtures("threads_that_change_often")
def test_several_threads_parse_at_a_time() -> None:
    begin = threading.Barrier(4)

    def parsed(_: int) -> str:
        begin.wait()
        for _ in range(30):
            garbage = [_Finalized() for _ in range(30)]
            del garbage
            tree = syntax_tree(SOURCE)
        return ast.unparse(tree)

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(parsed, range(4))) == {ast.unparse(ast.parse(SOURCE))}


def test_spaces_around_an_expression_are_left_out() -> None:
    assert ast.unparse(expression_tree("  M // 2\n")) == "M // 2"
    assert literal(" {'M': [1, 2]} ") == {"M": [1, 2]}


@pytest.mark.parametrize("text", ["M +", "a = 1"])
def test_what_is_no_expression_is_refused(text: str) -> None:
    with pytest.raises(SyntaxError):
        expression_tree(text)
