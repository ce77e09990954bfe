"""Generated C is compiled as it is, or refused for the first thing that a kernel has no use for."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path

import pytest
from kernelwright.agent.rules.relaxed_math import NO_ERRNO, REORDERED, STRICT, VECTOR_MATH
from kernelwright.core.launch_plan import KernelCode
from kernelwright.evaluators.replay.c_source import PREFIX, checked_source, compile_c
from kernelwright.evaluators.replay.values import UnplannableCall

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


def test_generated_c_is_compiled_once_and_runs(tmp_path: Path) -> None:
    library = compile_c(code(), tmp_path)
    assert compile_c(code(), tmp_path) == library
    floats = (ctypes.c_float * 8)(*range(8))
    out = (ctypes.c_float * 8)()
    assert ctypes.CDLL(str(library))[f"{PREFIX}root_kernel"](floats, out, 8) == 0
    assert list(out)[4:] == pytest.approx([2.0, 5**0.5, 6**0.5, 7**0.5])


def test_numbers_of_half_precision_have_their_type(tmp_path: Path) -> None:
    """Its header takes most of the time to compile, and other vectors come without it."""
    half = HONEST.replace("float same[4];", "half same[4]; same[0] = ((half)2.0f);")
    assert "HALF_HALF_HPP" in checked_source(code()) and "HALF_HALF_HPP" not in checked_source(code(half))
    compile_c(code(half), tmp_path)


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ('system("true");', "directives or texts"),
        ("#define n 1", "directives or texts"),
        ("Y[0] = 'a';", "directives or texts"),
        ("usleep(3);", "calls 'usleep'"),
        ("float r = drand48();", "calls 'drand48'"),
        ("static float kept;", "'static'"),
        ("asm volatile (0);", "'asm'"),
        ("__asm__ (0);", "'__asm__'"),
        ("__builtin_trap();", "'__builtin_trap'"),
        ("goto end;", "'goto'"),
        ("((void (*)(void))(X))();", "through a pointer"),
        ("(*Y)(3);", "through a pointer"),
        ("thread_local int32_t t;", "'thread_local'"),
        ("struct a { int b; };", "'struct'"),
        ("throw 1;", "'throw'"),
    ],
)
def test_what_a_kernel_has_no_use_for_is_refused(statement: str, says: str) -> None:
    with pytest.raises(UnplannableCall, match=says.replace("(", r"\(")):
        checked_source(code(HONEST.replace("float sums[4];", f"float sums[4]; {statement}")))


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
    ],
)
def test_nothing_outlives_a_call(outside: str) -> None:
    with pytest.raises(UnplannableCall):
        checked_source(code(outside + HONEST))


def test_the_function_must_be_there() -> None:
    with pytest.raises(UnplannableCall, match="without its function"):
        checked_source(code(HONEST.replace("root_kernel", "other_kernel")))


def test_the_flags_that_a_rule_brings_are_known(tmp_path: Path) -> None:
    for flags in (STRICT, NO_ERRNO, REORDERED, VECTOR_MATH):
        compile_c(code(flags=("-O3", flags)), tmp_path)


@pytest.mark.parametrize(
    "flag", ["-include/tmp/a", "-include __file__", "-lfoo", "-Wl,-z", "-fplugin=a.so", "-DX=1", "@file", "-I/tmp"]
)
def test_only_known_flags_reach_the_compiler(flag: str, tmp_path: Path) -> None:
    with pytest.raises(UnplannableCall, match="compiler flag"):
        compile_c(code(flags=("-O3", flag)), tmp_path)


def test_code_that_does_not_compile_says_why(tmp_path: Path) -> None:
    with pytest.raises(UnplannableCall, match="does not compile"):
        compile_c(code(HONEST.replace("float sums[4];", "float sums[;")), tmp_path)


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ("float kept[1]; half h;", "float HALF_THREAD_LOCAL kept[64];"),
        ("int32_t errno;", "errno = errno + 1;"),
        ("int32_t signgam;", "signgam = 3;"),
    ],
)
def test_a_name_of_the_headers_stands_for_nothing_of_theirs(first: str, then: str) -> None:
    """Even when the text also declares one of that name, somewhere else."""
    text = f"int32_t other(float* X) {{ {first} return 0; }}\n"
    checked = checked_source(code(text + HONEST.replace("float sums[4];", f"float sums[4]; {then}")))
    name = then.split()[1] if then.startswith("float") else then.split()[0]
    assert f"own_{name}" in checked and not re.search(rf"\b{name}\b", checked)


def test_a_function_that_a_linker_would_call_is_an_ordinary_one(tmp_path: Path) -> None:
    library = compile_c(code("int32_t _init(float* X) {\n  return 1;\n}\n" + HONEST), tmp_path)
    assert b"own__init" in library.read_bytes()
