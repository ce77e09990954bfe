"""What is said of an expression holds for all values of its variables, and it computes what the given C does."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernelwright.evaluators.replay.generated_c import Interval
from kernelwright.evaluators.replay.generated_c.expressions import Expressions
from kernelwright.evaluators.replay.generated_c.prelude import PRELUDE
from kernelwright.evaluators.replay.generated_c.types import (
    INT32,
    INT64,
    UINT32,
    CType,
    quotients,
    remainders,
    type_named,
)
from kernelwright.evaluators.replay.generated_c.values import Value
from pycparser import c_ast
from pycparser.c_parser import CParser

from .running import QUICK, built

VARIABLES: dict[str, tuple[CType, Interval]] = {
    "i": (INT32, Interval(0, 7)),
    "j": (INT32, Interval(-3, 200)),
    "k": (INT32, INT32.interval),
    "u": (UINT32, Interval(0, 9)),
    "v": (UINT32, UINT32.interval),
    "l": (INT64, Interval(-5, 1 << 40)),
    "b": (type_named(["uint8_t"]), Interval(250, 255)),
}
CASTS = ("int32_t", "int64_t", "uint32_t", "uint8_t", "int8_t", "bool")
DECLARED = " ".join(f"typedef int {name};" for name in CASTS)
SHIFTED = st.integers(0, 31).map(str)
DIVIDED = st.one_of(st.integers(1, 9).map(str), st.just("((i & 3) + 1)"), st.just("(j + 4)"))


def combined(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.builds("({} {} {})".format, inner, st.sampled_from(["+", "-", "*", "&", "|", "^"]), inner),
        st.builds("({} {} {})".format, inner, st.sampled_from(["<", "<=", "==", "!=", "&&", "||"]), inner),
        st.builds("({} {} {})".format, inner, st.sampled_from(["/", "%"]), DIVIDED),
        st.builds("((int64_t){} >> {})".format, inner, SHIFTED),
        st.builds("((int64_t){} << {})".format, inner, st.integers(0, 20).map(str)),
        st.builds("({}{})".format, st.sampled_from(["-", "~", "!"]), inner),
        st.builds("(({}){})".format, st.sampled_from(CASTS), inner),
        st.builds("({} ? {} : {})".format, inner, inner, inner),
    )


LEAVES = st.one_of(
    st.sampled_from([*VARIABLES]), st.integers(0, 300).map(str), st.sampled_from(["2147483647", "3000000000", "4000u"])
)
EXPRESSIONS = st.recursive(LEAVES, combined, max_leaves=8)
CONDITIONS = st.builds(
    "({} {} {})".format, EXPRESSIONS, st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), EXPRESSIONS
)


def parsed(expression: str) -> c_ast.Node:
    return CParser().parse(f"{DECLARED} void f(void) {{ {expression}; }}").ext[-1].body.block_items[0]


def known() -> Expressions:
    expressions = Expressions()
    for name, (kind, interval) in VARIABLES.items():
        expressions.state.set(expressions.scopes.declare(name, kind).name, interval)
    return expressions


def function(number: int, given: str, condition: str, value: Value) -> str:
    """Return a function that is 0 where the condition does not hold, or the value is what the interval says."""
    given = re.sub(r"\b[a-z]\b", lambda found: f"own_{found[0]}_{[*VARIABLES].index(found[0]) + 1}", given)
    condition = re.sub(r"\b[a-z]\b", lambda found: f"own_{found[0]}_{[*VARIABLES].index(found[0]) + 1}", condition)
    parameters = ", ".join(f"{kind.name} own_{name}_{at}" for at, (name, (kind, _)) in enumerate(VARIABLES.items(), 1))
    low, high = value.interval.low, value.interval.high
    return (
        f"int f{number}({parameters}) {{ if (!({condition})) return 0; __int128 had = ({value.type.name})({given}),"
        f" has = {value.text}; return had != has ? 1 : !((__int128){low}{'ll' if low > -(1 << 63) else ''} <= has"
        f" && has <= (__int128){high}{'ull' if high > 0 else ''}) ? 2 : 0; }}\n"
    ).replace(f"(__int128){-(1 << 63)} ", "(__int128)INT64_MIN ")


def values_in(interval: Interval) -> st.SearchStrategy[int]:
    ends = [number for number in (interval.low, interval.high, 0, 1, -1, 7) if interval.low <= number <= interval.high]
    return st.one_of(st.sampled_from(ends), st.integers(interval.low, interval.high))


ARGUMENTS = st.lists(st.tuples(*(values_in(interval) for _, interval in VARIABLES.values())), min_size=4, max_size=8)


@QUICK
@given(st.lists(st.tuples(EXPRESSIONS, CONDITIONS), min_size=20, max_size=30), ARGUMENTS)
def test_an_expression_is_never_outside_of_its_interval(
    tmp_path_factory: pytest.TempPathFactory, pairs: Sequence[tuple[str, str]], arguments: Sequence[tuple[int, ...]]
) -> None:
    text, names = PRELUDE + 'extern "C" {\n', []
    for number, (expression, condition) in enumerate(pairs):
        expressions = known()
        expressions.assume(parsed(condition), True)
        value = expressions.value(parsed(expression))
        text += function(number, expression, condition, value)
        names.append((f"f{number}", expression, condition, value))
    library = ctypes.CDLL(str(built(text + "}\n", tmp_path_factory.mktemp("built"))))
    for name, expression, condition, value in names:
        call = library[name]  # another object each time it is asked for
        call.argtypes = [ctypes.c_int64] * len(VARIABLES)
        for values in arguments:
            failed = call(*values)
            assert not failed, (failed, expression, condition, value, dict(zip(VARIABLES, values, strict=True)))


@settings(deadline=None)
@given(st.lists(st.integers(-9, 9), min_size=4, max_size=4))
def test_quotients_and_remainders_are_those_of_c(ends: Sequence[int]) -> None:
    (low, high), (least, most) = sorted(ends[:2]), sorted(ends[2:])
    of = [two for two in range(least, most + 1) if two]
    if not of:
        return
    divided = quotients(Interval(low, high), Interval(least, most))
    left = remainders(Interval(low, high), Interval(least, most))
    for number in range(low, high + 1):
        for two in of:
            quotient = int(number / two)
            assert divided.low <= quotient <= divided.high
            assert left.low <= number - quotient * two <= left.high
