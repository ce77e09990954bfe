"""Compilation of generated C, with flags of ours, once it has been written anew (`generated_c`)."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ...core.launch_plan import KernelCode
from ..languages.c_headers import standard_for
from .generated_c import FLOAT_TO_INTEGER, Given, held_source
from .values import UnplannableCallError

FLAGS = re.compile(
    r"-O[0-3]|-Ofast|-march=native|-mtune=native|-mavx2|-mfma|-mavx512\w*|-mprefer-vector-width=\d+|-funroll-loops"
    r"|-ffast-math|-D__FAST_MATH__|-fmath-errno|-fno-math-errno|-fno-trapping-math|-fassociative-math|-freciprocal-math|-ffp-contract=\w+"
    r"|-fno-signed-zeros|-fopenmp-simd|-ftree-vectorize|-fvect-cost-model=\w+|-fno-semantic-interposition|-std=c\+\+\d\d|-w"
)
"""Compiler flags that a kernel's file may ask for."""
ALWAYS = ("-w", "-fPIC", "-shared", "-nostartfiles", "-ftrivial-auto-var-init=pattern")
"""Without start files, since `-Ofast` would add one that flushes denormal numbers in the whole process. Local variables
get a pattern, so that they hold nothing of an earlier call."""
_HELD = ("-fno-finite-loops", "-fno-jump-tables", "-fstack-clash-protection")
"""A loop that does not end is not left, since what follows may hold only after it. A jump goes nowhere but where the
code says, whatever the number that decides. A stack that is too small is found at its end, not behind it."""
_WITH_NAN = "-fno-finite-math-only"
"""Where floats become integers: a check that a float is in an integer's range also finds those that are not numbers."""
_COMPILE_S = 120.0


def compile_c(code: KernelCode, given: Given, folder: Path) -> Path:
    """Compile generated C to a library in the folder, once, for launches with such arguments.

    Raises `UnplannableCallError` where that fails.
    """
    source = held_source(code, given)
    for flag in code.flags:
        for option in flag.split():
            if not FLAGS.fullmatch(option):
                raise UnplannableCallError(
                    f"{code.name}: the compiler flag {option}, which is not among the allowed ones"
                )
    asked = [part for flag in code.flags for part in flag.split() if not part.startswith("-std")]
    flags = [*ALWAYS, *asked, *_HELD, *([_WITH_NAN] if FLOAT_TO_INTEGER in source else [])]
    return build(source, flags, folder, code.name)


def build(source: str, flags: Sequence[str], folder: Path, name: str) -> Path:
    """Compile a source with its headers to a library in the folder, once.

    Raises `UnplannableCallError`, with the name.
    """
    library = folder / f"{hashlib.sha256((source + ' '.join(flags)).encode()).hexdigest()}.so"
    if library.exists():
        return library
    with tempfile.TemporaryDirectory(dir=folder) as own:  # two threads may compile the same
        text, made = Path(own) / "code.cpp", Path(own) / library.name
        text.write_text(source)
        command = [_compiler(), standard_for(source), *flags, f"-I{_templates()}", "-o", str(made), str(text), "-lm"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_COMPILE_S, check=False)
        if done.returncode:
            raise UnplannableCallError(f"{name}: generated C that does not compile: {done.stderr.strip()[:200]}")
        made.rename(library)
    return library


def _compiler() -> str:
    found = shutil.which("g++") or shutil.which("clang++")
    if found is None:
        raise UnplannableCallError("no C++ compiler (g++) to compile the plan with")
    return found


def _templates() -> Path:
    """TileLang's folder of headers, found without importing TileLang."""
    import importlib.util

    spec = importlib.util.find_spec("tilelang")
    if spec is None or spec.origin is None:
        raise UnplannableCallError("TileLang's headers are not installed")
    return Path(spec.origin).parent / "src"
