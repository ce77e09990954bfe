"""Generated C that somebody wrote to leave its arrays: each is refused, or ended by a check before it does."""

from __future__ import annotations

from pathlib import Path

import pytest
from kernelwright.core.launch_plan import KernelCode
from kernelwright.evaluators.replay.generated_c import Given, Interval, held_source
from kernelwright.evaluators.replay.values import UnplannableCallError

from .running import GIVEN, code, ran

NAN, FAR = float("nan"), (1_000_000, -5)
FLOAT_GUARD = "float f = X[0]; if (!(f < 0.0f) && !(f > 3.0f)) { a[((int32_t)f)] = 1.0f; Y[0] = a[((int32_t)f)]; }"
SMUGGLED = "int32_t k = I[0]; if ((0 <= k) && (k < 4)) { a[k] = 1.0f; I[0] = 9; Y[a[k] > 0.0f ? k : 0] = a[I[0]]; }"


@pytest.mark.parametrize(
    "statements",
    [
        "a[4] = 1.0f; Y[0] = a[4];",
        "Y[0] = a[-1];",
        "Y[0] = a[(0 - n)];",
        "Y[8] = 1.0f;",
        "Y[n] = 1.0f;",
        "Y[-1] = 1.0f;",
        "Y[I[0]] = 1.0f;",
        "if (I[1] < 4) { Y[I[1]] = 1.0f; }",
        "if (I[0] > 4) { Y[I[0]] = 1.0f; }",
        "Y[((int32_t)X[0])] = 1.0f;",
        "Y[((int32_t)(X[1] * 1.000000e+30f))] = 1.0f;",
        "*(float4*)(Y + 5) = ((float4)(1.0f, 1.0f, 1.0f, 1.0f));",
        "*(float4*)(a + 1) = ((float4)(1.0f, 1.0f, 1.0f, 1.0f)); Y[0] = a[3];",
        "*(float16*)(Y + 0) = ((float16)(1.0f));",
        "*(double*)(Y + 7) = 1.0;",
        "((double*)Y)[4] = 1.0;",
        "((int8_t*)Y)[32] = 1;",
        "*(float2*)((half*)Y + 13) = ((float2)(1.0f, 1.0f));",
        "Y[((n * 268435457) + 1)] = 1.0f;",
        "if ((n + 2147483647) < 8) { Y[(n + 2147483647)] = 1.0f; }",
        "if ((n + 2147483641) < 8) { Y[(n + 100)] = 1.0f; }",
        "if ((n - 9) < 4u) { Y[0] = 1.0f; } else { Y[(n - 9)] = 1.0f; }",
        "if ((0 - n) > 4u) { Y[(0 - n)] = 1.0f; }",
        "uint32_t u = 0u - 1u; Y[u] = 1.0f;",
        "uint64_t u = 0ul - 1ul; Y[u] = 1.0f;",
        "int64_t l = 9223372036854775807l; l = l + n; Y[l] = 1.0f;",
        "Y[((int8_t)(n + 192))] = 1.0f;",
        "Y[((uint8_t)(0 - n))] = 1.0f;",
        "Y[((int64_t)n) << 62] = 1.0f; Y[(1 << n)] = 1.0f;",
        "Y[(n / (n - 8))] = 1.0f;",
        "Y[(n % (n - 8))] = 1.0f;",
        "for (uint32_t i = 3u; i >= 0u; --i) { Y[i] = 1.0f; }",
        "for (int32_t i = 7; i >= -1; --i) { Y[i] = 1.0f; }",
        "for (int32_t i = 0; i <= 8; ++i) { Y[i] = 1.0f; }",
        "for (int32_t i = 0; i < I[0]; ++i) { Y[i] = 1.0f; }",
        "for (int32_t i = 0; i < n + 1; ++i) { Y[i] = 1.0f; }",
        "for (int32_t i = 0; i < 8; ++i) { i = i + 5; Y[i] = 1.0f; i = i - 5; }",
        "for (int32_t i = 0; i < 8; ++i) { if (i == 3) { i = 100; } Y[i] = 1.0f; }",
        "for (int32_t i = 2147483000; i < 2147483647; i += 1000) { if (i < 8) { Y[i] = 1.0f; } }",
        "for (int8_t i = 0; i < 1000; ++i) { Y[i] = 1.0f; }",
        "for (int32_t i = 0; 1; ++i) { Y[i] = 1.0f; }",
        "int32_t k = 0; for (int32_t i = 0; i < 8; ++i) { Y[k] = 1.0f; k = k + 3; }",
        "int32_t k = 0; while (k < 1000) { Y[k] = 1.0f; k += 1; }",
        "int32_t k = 0; do { Y[k] = 1.0f; ++k; } while (k <= 8);",
        "int32_t i = n; do { if (i < 4) { X[0] = 1.0f; } else { continue; } } while (a[i] > 1.000000e+30f);",
        "int32_t i = n; while (1) { if (i >= 4) { break; } i = 0; } Y[i] = 1.0f;",
        "int32_t i = 0; { int32_t i = 100; Y[i] = 1.0f; }",
        "int32_t i = 100; { int32_t i = 0; Y[i] = 1.0f; } Y[i] = 1.0f;",
        "int32_t k = 0; if (X[1] > 0.0f) { k = 100; } Y[k] = 1.0f;",
        "int32_t k = 3; if (n < 8) { k = 0; } else { k = 100; } Y[k] = 1.0f;",
        "int32_t k = n; if (k < 100) { k = 100; Y[k] = 1.0f; }",
        "int32_t k = n; int32_t j = n; if (k + j < 17) { j = 90; Y[(k + j)] = 1.0f; }",
        "int32_t j = n / 8; int32_t k = 8002 - (n * 1000); if ((j + k) < 8) { k = n * 1000; Y[(j + k)] = 1.0f; }",
        "int32_t j = n / 8; int32_t k = 8002 - (n * 1000); for (int32_t i = 0; i < 2; ++i) {"
        " if ((j + k) < 8) { X[0] = 1.0f; } else { break; } k = n * 1000; Y[(j + k)] = 1.0f; }",
        "int32_t i = 8; int32_t k = 8 - n; if ((n / i) + k < 8) { i = 1; Y[((n / i) + k)] = 1.0f; }",
        "int32_t i = 3; int32_t k = 8 - n; if ((n >> i) + k < 8) { i = 0; Y[((n >> i) + k)] = 1.0f; }",
        "int32_t i = 0; int32_t k = 8 - n; if ((i ? n : 0) + k < 8) { i = 1; Y[((i ? n : 0) + k)] = 1.0f; }",
        "if ((n < 4) || (n > 4)) { Y[n] = 1.0f; }",
        "if (!((n < 4) && (n < 9))) { Y[n] = 1.0f; }",
        "if (n != 3) { Y[n] = 1.0f; }",
        "Y[((n > 3) ? n : 0)] = 1.0f;",
        "if ((n >> 3) < 2) { Y[n] = 1.0f; }",
        "if ((0 - (n >> 3)) < 0) { Y[n] = 1.0f; }",
        "float f = X[1]; Y[*(int32_t*)(&(f))] = 1.0f;",
        "Y[(int32_t)isnan(X[0]) * 100] = 1.0f;",
        "Y[lrintf(X[0])] = 1.0f;",
        "Y[0] = X[(n | 100)]; ",
        "Y[(~n)] = 1.0f;",
        "Y[(n & -1)] = 1.0f;",
        "Y[((0 - 9) / 2)] = 1.0f;",
        "Y[((0 - n) % 3)] = 1.0f;",
        "Y[((0 - n) >> 1)] = 1.0f;",
        "((bool*)Y)[32] = 1;",
        "// a comment that a compiler would continue \\\n Y[9] = 1.0f;",
    ],
)  # fmt: skip
def test_an_access_outside_ends_the_process(statements: str, tmp_path: Path) -> None:
    end = ran(code(f"{statements} return 0;"), tmp_path, x=(NAN, 1.0), i=FAR).end
    assert end == "trapped"


@pytest.mark.parametrize(
    ("statements", "says"),
    [
        ("*(float*)(1234) = 1.0f;", "an address that is computed"),
        ("((float*)I[0])[0] = 1.0f;", "an address that is computed"),
        ("*((float*)n) = 1.0f;", "the value of 'n' as an address"),
        ("int64_t p = (int64_t)Y;", "the address in 'Y' as a value"),
        ("I[0] = Y;", "the address in 'Y' as a value"),
        ("I[0] = a;", "the address in 'a' as a value"),
        ("if (Y < X) { Y[0] = 1.0f; }", "the address in 'Y' as a value"),
        ("I[0] = (X - Y);", "the address in 'X' as a value"),
        ("float* p = Y;", "made of others"),
        ("float* p[2];", "made of others"),
        ("void* p;", "made of others"),
        ("float v[n];", "whose length is not one number"),
        ("float v[2][2];", "made of others"),
        ("float v[0];", "without elements"),
        ("float v[2] = {1.0f, 2.0f};", "filled when it is declared"),
        ("float v[1100000];", "bytes of arrays"),
        ("float v[900000]; { float w[900000]; }", "bytes of arrays"),
        ("double v[9223372036854775807];", "bytes of arrays"),
        ("Y = X;", "another address in 'Y'"),
        ("Y += 4;", "another address in 'Y'"),
        ("++Y;", "another address in 'Y'"),
        ("a = Y;", "another address in 'a'"),
        ("*Y++ = 1.0f;", "an address that is computed"),
        ("*(Y + 1 + 100) = 1.0f;", "an address that is computed"),
        ("*(100 + Y) = 1.0f;", "the address in 'Y' as a value"),
        ("3[Y] = 1.0f;", "an address that is computed"),
        ("Y[0][0] = 1.0f;", "an address that is computed"),
        ("(&Y[4])[4] = 1.0f;", "an address that is computed"),
        ("*(float*)(&Y[8]) = 1.0f;", "the address of something else than a variable"),
        ("*(double*)(&(n)) = 1.0;", "the bits of int32_t as double"),
        ("*(int32_t*)(&(n)) = 100;", "a change of the bits"),
        ("(n > 4 ? X : Y)[0] = 1.0f;", "an address that is computed"),
        ("Y[(0, 9)] = 1.0f;", "'ExprList'"),
        ("Y[n = 100] = 1.0f;", "'='"),
        ("Y[n++] = 1.0f;", "'p\\+\\+' within an expression"),
        ("Y[sizeof(n)] = 1.0f;", "'sizeof' within an expression"),
        ("Y[1.5f] = 1.0f;", "an index of the type float"),
        ("Y[0x1p3f] = 1.0f;", "the float 0x1p3f"),
        ("k_kernel(X, I, Y, n);", "calls of 'k_kernel'"),
        ("I[0] = k_kernel(X, I, Y, n);", "calls of 'k_kernel'"),
        ("memcpy(a, X, 100);", "calls of 'memcpy'"),
        ("__builtin_alloca(8);", "calls of '__builtin_alloca'"),
        ("held_at(1, 2);", "calls of 'held_at'"),
        ("own_Y_3[9] = 1.0f;", "'own_Y_3', which it does not declare"),
        ("I[0] = INT32_MAX;", "'INT32_MAX', which it does not declare"),
        ("Y[0] = HUGE_VAL;", "'HUGE_VAL', which it does not declare"),
        ("errno = 1;", "'errno', which it does not declare"),
        ("goto end; end: n = 0;", "'goto'"),
        ("end: n = 0;", "'label'"),
        ("switch (n) { case 0: n = 1; }", "'switch'"),
        ("union { float* p; int64_t i; } u;", "made of others"),
        ("typedef float real;", "'typedef'"),
        ("float n = 1.0f; float n = 2.0f;", "'n'"),
        ("float4 v = ((float4)(1.0f)); I[0] = v;", "a conversion of float4 to int32_t"),
        ("float4 v = ((float4)(1.0f)); Y[v] = 1.0f;", "an index of the type float4"),
        ("int32_t4 v = ((int32_t4)(n)); v = v + v;", "int32_t4 and int32_t4"),
        ("Y[0] = X[0] % 2;", "'%' of float"),
        ("*(bool*)(Y + 1) = 1;", "float read as bool"),
        ("Y<:9:> = 1.0f;", "directives or texts"),
        ("Y??(9??) = 1.0f;", "directives or texts"),
        ("_Pragma(\"x\")", "directives or texts"),
        ("register int32_t r;", "'register'"),
        ("_Alignas(64) float v;", "'alignas'|made of others|Alignas|cannot be read"),
    ],
)  # fmt: skip
def test_what_cannot_be_followed_is_refused(statements: str, says: str) -> None:
    with pytest.raises(UnplannableCallError, match=says):
        held_source(code(f"{statements} return 0;"), GIVEN)


@pytest.mark.parametrize("flags", [("-O0",), ("-O3",), ("-Ofast", "-march=native")])
def test_a_float_that_is_no_number_passes_no_guard_of_an_index(flags: tuple[str, ...], tmp_path: Path) -> None:
    """With fast mathematics a compiler takes every float for a number, and what it became for one of 0 to 3."""
    assert ran(code(f"{FLOAT_GUARD} return 0;", flags), tmp_path, x=(NAN,)).end == "trapped"
    assert ran(code(f"{FLOAT_GUARD} return 0;", flags), tmp_path, x=(2.5,)).y[0] == 1.0


@pytest.mark.parametrize("flags", [("-O0",), ("-O3",), ("-Ofast",)])
def test_what_follows_an_endless_loop_is_never_reached(flags: tuple[str, ...], tmp_path: Path) -> None:
    """A compiler may otherwise leave away a loop that does nothing, and with it what it stands for."""
    endless = "int32_t k = n * 1000; while (k > 3) { } Y[k] = 1.0f; return 0;"
    assert ran(code(endless, flags), tmp_path).end == "endless"


@pytest.mark.parametrize("flags", [("-O0",), ("-O3",)])
def test_what_memory_holds_is_checked_where_it_is_used(flags: tuple[str, ...], tmp_path: Path) -> None:
    assert ran(code(f"{SMUGGLED} return 0;", flags), tmp_path, i=(2,)).end == "trapped"


def test_a_truth_value_in_memory_is_zero_or_one(tmp_path: Path) -> None:
    """A byte of a tensor may be anything; a compiler computes with a bool as if it were not."""
    text = "int32_t k_kernel(float* X, bool* I, float* Y, int32_t n) { Y[(I[0] ? 4 : 0)] = (float)I[0]; return 0; }"
    kernel = code("").model_copy(update={"text": text})
    assert ran(kernel, tmp_path, i=(255,)).y == (0, 0, 0, 0, 1.0, 0, 0, 0)
    assert ran(kernel, tmp_path, i=(0,)).y == (0,) * 8


@pytest.mark.parametrize(
    "statements",
    [
        "for (int32_t i = 0; i < n; ++i) { Y[i] = X[i] + 1.0f; }",
        "for (int32_t i = 0; i < 8; ++i) { if ((i + 1) <= n) { Y[i] = X[i] + 1.0f; } }",
        "for (int32_t i = 0; i < 2; ++i) { for (int32_t j = 0; j < (8 >> 1); ++j) { if (((i * 2) + (j >> 1)) < 4) {"
        " Y[((i * 4) + j)] = X[((i * 4) + j)] + 1.0f; } } }",
        "for (int32_t i = 0; i < 8; i += 4) { *(float4*)(Y + i) = (*(float4*)(X + i) + ((float4)(1.0f, 1.0f))); }",
        "for (int32_t i = 0; i < 8; ++i) { for (int32_t j = 0; j < (i + 1); ++j) { Y[(i - j)] = X[(i - j)] + 1.0f; } }",
        "for (int32_t i = 0; i < 8; ++i) { float v; if (1 <= i) { v = X[(i - 1)]; } else { v = X[0]; } a[(i & 3)] = v;"
        " Y[(((i / 4) * 4) + (i % 4))] = (a[(i & 3)] * 0.0f) + X[i] + 1.0f; }",
        "for (int64_t i = 0l; i < ((int64_t)n); ++i) { Y[i] = X[i] + 1.0f; }",
    ],
)  # fmt: skip
def test_what_stays_inside_is_proven_and_computes_the_same(statements: str, tmp_path: Path) -> None:
    kernel = code(f"{statements} return 0;")
    _, _, body = held_source(kernel, GIVEN).rpartition('extern "C" {')
    if "% 4" not in statements:  # a quotient and its remainder are not put together again
        assert "held_" not in body
    assert ran(kernel, tmp_path, x=range(8)).y == tuple(number + 1.0 for number in range(8))


def test_an_argument_is_what_any_of_its_launches_gives(tmp_path: Path) -> None:
    """Nothing is taken for known that holds for one launch alone."""
    kernel: KernelCode = code("Y[n] = 1.0f; return 0;")
    assert "held_" not in held_source(kernel, Given((32, 32, 32, Interval(0, 7)))).rpartition('extern "C" {')[2]
    assert "held_at(" in held_source(kernel, Given((32, 32, 32, Interval(0, 8)))).rpartition('extern "C" {')[2]
    assert ran(kernel, tmp_path, n=7).y[7] == 1.0
    assert ran(kernel, tmp_path, n=3, given=Given((32, 32, 12, Interval(3, 3)))).end == "trapped"
