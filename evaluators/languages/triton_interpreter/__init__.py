"""Triton's interpreter, corrected: it computes what a GPU does, and reports what it cannot compute."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from .arithmetic import fix_arithmetic
from .calls import fix_calls
from .libdevice import fix_libdevice
from .limits import name_limits
from .reductions import fix_reductions


def fix_interpreter() -> None:
    """Replace what the interpreter does otherwise than a GPU. Raises `ImportError` where there is no Triton.

    What an autotuner would choose by time means nothing there. It refuses sums and products of whole numbers that
    overflow, which wrap around on a GPU; looking for them takes half of its time.
    """
    from triton.runtime import interpreter
    from triton.runtime.autotuner import Autotuner

    builder = interpreter.interpreter_builder
    if getattr(builder, "is_fixed", False):
        return
    builder.is_fixed = True
    builder.options = dataclasses.replace(builder.options, sanitize_overflow=False)
    fix_arithmetic(interpreter.InterpreterBuilder)
    fix_reductions()
    fix_libdevice(interpreter.InterpreterBuilder)
    name_limits(interpreter.InterpreterBuilder)
    fix_calls()
    Autotuner.do_bench = property(lambda tuner: tuner._do_bench or _untimed)


def _untimed(call: object, quantiles: Sequence[float]) -> list[float]:
    """Stand for Triton's benchmark: all configs take as long, so that the first is chosen."""
    return [0.0 for _ in quantiles]
