"""What is proven of a program holds when it runs: the machine checks each proof about programs at random."""

from __future__ import annotations

import subprocess
import sys
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernelwright.core.launch_plan import KernelCode
from kernelwright.evaluators.replay.generated_c import Interval, accesses, held_source
from kernelwright.evaluators.replay.generated_c.prelude import PRELUDE
from kernelwright.evaluators.replay.generated_c.values import Value

from .running import GIVEN, QUICK, built
from .written import Writer

PROGRAMS = 15
VECTORS = "struct float2 { float one, two; float2() = default; explicit float2(float v) { one = two = v; } };\n"
CHILD = """
import ctypes, sys
library = ctypes.CDLL(sys.argv[1])
for number in range(int(sys.argv[2])):
    for n in (0, 3, 8):
        print(number, n, flush=True)
        x, i, y = (ctypes.c_float * 8)(), (ctypes.c_int32 * 8)(3, -1, 7, 100, 2, 5, -9, 8), (ctypes.c_float * 8)()
        library[f"own_k{number}"](x, i, y, n)
"""


def proof_or_detour(index: Value, count: int) -> str:
    """Write an access that was proven with a check of the proof, and any other so that it stays inside."""
    if index.total is not None and index.interval.within(Interval(0, count - 1)):
        return f"held_at((int64_t)({index.text}), {count}ul)"
    return f"(int64_t)((uint64_t)({index.text}) % {count}ul)"


@QUICK
@given(st.integers(0, 1 << 40))
def test_what_is_proven_of_a_program_holds_when_it_runs(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    """A wrong proof would end the process."""
    types = ("pointer", "pointer", "pointer", "int32")
    programs, bodies = [Writer(seed + number).program() for number in range(PROGRAMS)], []
    with mock.patch.object(accesses, "_held", proof_or_detour):
        for number, program in enumerate(programs):
            text = f"int32_t k{number}(float* X, int32_t* I, float* Y, int32_t n) {{ {program} }}"
            kernel = KernelCode(name="k", kind="c", text=text, entry=f"k{number}", parameters=types)
            bodies.append('extern "C" {' + held_source(kernel, GIVEN).rpartition('extern "C" {')[2])
    library = built(PRELUDE + VECTORS + "".join(bodies), tmp_path_factory.mktemp("program"))
    command = [sys.executable, "-S", "-c", CHILD, str(library), str(PROGRAMS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    last = done.stdout.split()[-2:]
    assert done.returncode == 0, (last, programs[int(last[0])], bodies[int(last[0])])
