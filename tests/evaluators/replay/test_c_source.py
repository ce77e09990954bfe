"""Generated C is compiled as it is, or refused for the first thing that a kernel has no use for."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path

import pytest
from kernelwright.agent.rules.tilelang_cpu.relaxed_math import NO_ERRNO, REORDERED, STRICT, VECTOR_MATH
from kernelwright.core.launch_plan import KernelCode
from kernelwright.evaluators.replay.c_source import compile_c
from kernelwright.evaluators.replay.generated_c import PREFIX, Given, Interval, held_source
from kernelwright.evaluators.replay.values import UnplannableCallError

HEADER = """// tilelang target: {"kind":"c"}
#include <tl_templates/cpp/common.h>

#ifdef __cplusplus
extern "C"
#endif
float sqrtf(float);
"""
HONEST = """
int32_t root_kernel(float* __restrict__ X, float* Y, int32_t n) {
  float sums[4];
  float same[4];
  float largest = -INFINITY;
  for (int32_t i = 0; i < n; ++i) {
    sums[(i & 3)] = ((X[i] < 1.000000e-05f) ? 0.0f : sqrtf(X[i]));
    *(float4*)(same + 0) = ((float4)(sums[0], sums[1], sums[2], sums[3]));
    if (((bool)1) && (i < (n / 2))) {
      Y[i] = fmaxf(sums[(i & 3)], ((float)i) * 0.5f);
    } else {
      Y[i] = sums[(i & 3)];
    }
  }
  return 0;
}
"""


def code(body: str = HONEST, header: str = HEADER, flags: tuple[str, ...] = ("-O2",)) -> KernelCode:
    types = ("pointer", "pointer", "int32")
    return KernelCode(name="root", kind="c", text=header + body, entry="root_kernel", parameters=types, flags=flags)


GIVEN = Given((32, 32, Interval(0, 8)))


def test_generated_c_is_compiled_once_and_runs(tmp_path: Path) -> None:
    library = compile_c(code(), GIVEN, tmp_path)
    assert compile_c(code(), GIVEN, tmp_path) == library
    floats = (ctypes.c_float * 8)(*range(8))
    out = (ctypes.c_float * 8)()
    assert ctypes.CDLL(str(library))[f"{PREFIX}root_kernel"](floats, out, 8) == 0
    assert list(out)[4:] == pytest.approx([2.0, 5**0.5, 6**0.5, 7**0.5])


def test_numbers_of_half_precision_have_their_type(tmp_path: Path) -> None:
    """Its header takes most of the time to compile, and other vectors come without it."""
    half = HONEST.replace("float same[4];", "half same[4]; same[0] = ((half)2.0f);")
    assert "HALF_HALF_HPP" in held_source(code(), GIVEN) and "HALF_HALF_HPP" not in held_source(code(half), GIVEN)
    compile_c(code(half), GIVEN, tmp_path)


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ('system("true");', "directives or texts"),
        ("#define n 1", "directives or texts"),
        ("Y[0] = 'a';", "directives or texts"),
        ("usleep(3);", "calls of 'usleep'"),
        ("float r = drand48();", "calls of 'drand48'"),
        ("static float kept;", "'static'"),
        ("extern float kept;", "'extern'"),
        ("asm volatile (0);", "cannot be read"),
        ("__asm__ (0);", "calls of '__asm__'"),
        ("__builtin_trap();", "calls of '__builtin_trap'"),
        ("goto end;", "'goto'"),
        ("((void (*)(void))(X))();", "through a pointer"),
        ("(*Y)(3);", "through a pointer"),
        ("thread_local int32_t t;", "cannot be read"),
        ("struct a { int b; };", "made of others"),
        ("throw 1;", "cannot be read"),
    ],
)
def test_what_a_kernel_has_no_use_for_is_refused(statement: str, says: str) -> None:
    with pytest.raises(UnplannableCallError, match=says):
        held_source(code(HONEST.replace("float sums[4];", f"float sums[4]; {statement}")), GIVEN)


@pytest.mark.parametrize(
    "outside",
    [
        "int32_t calls;\n",
        "float kept[4] = {0, 1, 2, 3};\n",
        "int32_t calls = max(1, 2);\n",
        "#include <stdlib.h>\n",
        "#include __FILE__\n",
        "typedef float real;\n",
        "namespace a {}\n",
        "int32_t other(float* X) { return 0; }\n",
    ],
)
def test_nothing_outlives_a_call(outside: str) -> None:
    with pytest.raises(UnplannableCallError):
        held_source(code(outside + HONEST), GIVEN)


def test_the_function_must_be_there() -> None:
    with pytest.raises(UnplannableCallError, match="other functions than the one 'root_kernel'"):
        held_source(code(HONEST.replace("root_kernel", "other_kernel")), GIVEN)


def test_the_flags_that_a_rule_brings_are_known(tmp_path: Path) -> None:
    for flags in (STRICT, NO_ERRNO, REORDERED, VECTOR_MATH):
        compile_c(code(flags=("-O3", flags)), GIVEN, tmp_path)


@pytest.mark.parametrize(
    "flag", ["-include/tmp/a", "-include __file__", "-lfoo", "-Wl,-z", "-fplugin=a.so", "-DX=1", "@file", "-I/tmp"]
)
def test_only_known_flags_reach_the_compiler(flag: str, tmp_path: Path) -> None:
    with pytest.raises(UnplannableCallError, match="compiler flag"):
        compile_c(code(flags=("-O3", flag)), GIVEN, tmp_path)


def test_code_that_does_not_compile_says_why(tmp_path: Path) -> None:
    with pytest.raises(UnplannableCallError, match="does not compile"):
        compile_c(code(HONEST.replace("float sums[4];", "float sums[4]; Y[0] = sqrtf(1.0f, 2.0f);")), GIVEN, tmp_path)


@pytest.mark.parametrize("name", ["errno", "signgam", "HALF_THREAD_LOCAL", "stdout", "environ"])
def test_a_name_of_the_headers_stands_for_nothing_of_theirs(name: str) -> None:
    own = held_source(code(HONEST.replace("float sums[4];", f"float sums[4]; int32_t {name} = 3;")), GIVEN)
    assert f"own_{name}" in own and not re.search(rf"\b{name}\b", own)
    with pytest.raises(UnplannableCallError, match=f"'{name}', which it does not declare"):
        held_source(code(HONEST.replace("float sums[4];", f"float sums[4]; {name} = 3;")), GIVEN)


def test_a_function_that_a_linker_would_call_is_an_ordinary_one(tmp_path: Path) -> None:
    named = code(HONEST.replace("root_kernel", "_init")).model_copy(update={"entry": "_init"})
    assert b"own__init" in compile_c(named, GIVEN, tmp_path).read_bytes()


@pytest.mark.parametrize(
    ("types", "given"),
    [
        (("int64", "pointer", "int32"), Given((Interval(0, 1), 32, Interval(0, 8)))),
        (("pointer", "pointer", "pointer"), Given((32, 32, 32))),
        (("pointer", "pointer", "int64"), GIVEN),
        (("pointer", "pointer"), Given((32, 32))),
        (("pointer", "pointer", "int32"), Given((32, 32, None))),
        (("pointer", "pointer", "int32"), Given((32, 32, Interval(0, 1 << 31)))),
    ],
)
def test_parameters_are_what_the_plan_calls_them_with(types: tuple[str, ...], given: Given) -> None:
    """Otherwise an integer of the plan would be an address."""
    with pytest.raises(UnplannableCallError):
        held_source(code().model_copy(update={"parameters": types}), given)


@pytest.mark.parametrize(
    "expression", ["(" * 3000 + "1" + ")" * 3000, "!" * 5000 + "1", " + ".join(["1"] * 20000), "-" + "9" * 5000]
)
def test_what_is_too_deep_to_follow_is_refused(expression: str) -> None:
    with pytest.raises(UnplannableCallError):
        held_source(code(HONEST.replace("float sums[4];", f"float sums[4]; n = {expression};")), GIVEN)


def test_what_takes_too_long_to_follow_is_refused() -> None:
    """A condition is looked at where it stands and again for what follows from it."""
    condition = "n < 8"
    for _ in range(40):
        condition = f"(({condition}) ? 1 : 0) < 1"
    with pytest.raises(UnplannableCallError, match="more than can be checked"):
        held_source(code(HONEST.replace("float sums[4];", f"float sums[4]; if ({condition}) {{ n = 0; }}")), GIVEN)
