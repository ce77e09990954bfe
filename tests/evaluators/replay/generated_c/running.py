"""What becomes of a function of generated C: refused, ended by a check, or returned, with nothing written outside."""

from __future__ import annotations

import resource
import signal
import struct
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hypothesis import HealthCheck, Phase, settings
from kernelwright.core.launch_plan import KernelCode
from kernelwright.evaluators.replay.c_source import compile_c
from kernelwright.evaluators.replay.generated_c import PREFIX, Given, Interval

from .child import MARGIN, SIZE

QUICK = settings(
    max_examples=5, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate], database=None
)
"""Of properties whose every example is compiled."""
GIVEN = Given((SIZE, SIZE, SIZE, Interval(0, 8)))
"""Eight elements each of X, I and Y."""
_UNTOUCHED = 0xA5
_CPU_S = 1
"""Seconds of the processor after which a program is taken for endless; it is ended by `SIGXCPU`."""


@dataclass(frozen=True)
class Ran:
    """How it ended, and Y's eight numbers then."""

    end: str
    y: tuple[float, ...]


def code(statements: str, flags: Sequence[str] = ("-O3",)) -> KernelCode:
    """Return code with a local array of four numbers and these statements."""
    text = f"int32_t k_kernel(float* X, int32_t* I, float* Y, int32_t n) {{\n  float a[4];\n  {statements}\n}}\n"
    types = ("pointer", "pointer", "pointer", "int32")
    return KernelCode(name="k", kind="c", text=text, entry="k_kernel", parameters=types, flags=tuple(flags))


def ran(
    kernel: KernelCode, folder: Path, x: Sequence[float] = (), i: Sequence[int] = (), n: int = 8, given: Given = GIVEN
) -> Ran:
    """Compile and run it.

    Raises `UnplannableCallError` where it is refused; asserts that nothing was written outside.
    """
    library = compile_c(kernel, given, folder)
    inputs = struct.pack("8f", *x, *[0.0] * (8 - len(x))), struct.pack("8i", *i, *[0] * (8 - len(i))), bytes(SIZE)
    margin = bytes([_UNTOUCHED]) * MARGIN
    memory = folder / "memory"
    memory.write_bytes(margin + b"".join(data + margin for data in inputs))
    command = [sys.executable, "-S", "-E", str(Path(__file__).with_name("child.py"))]
    done = subprocess.run(
        [*command, str(library), PREFIX + kernel.entry, str(memory), str(n)],
        capture_output=True, text=True, timeout=60, check=False, preexec_fn=_limit,
    )  # fmt: skip
    ends = {0: done.stdout.strip(), -signal.SIGILL: "trapped", -signal.SIGXCPU: "endless"}
    end = ends.get(done.returncode, str(done))
    after = memory.read_bytes()
    inside = [slice(MARGIN + place * (MARGIN + SIZE), (place + 1) * (MARGIN + SIZE)) for place in range(3)]
    assert len({*after[:MARGIN], *(byte for place in inside for byte in after[place.stop : place.stop + MARGIN])}) == 1
    return Ran(end, struct.unpack("8f", after[inside[2]]))


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (_CPU_S, _CPU_S + 1))


def built(text: str, folder: Path) -> Path:
    """Compile C++ to a library, with integers that wrap around."""
    source, library = folder / "code.cpp", folder / "code.so"
    source.write_text(f"#include <math.h>\n#include <stdint.h>\n{text}")
    subprocess.run(["g++", "-O1", "-w", "-fwrapv", "-fPIC", "-shared", "-o", str(library), str(source)], check=True)
    return library
