"""Turns what the process of modules answers into the fields of evaluations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ...core import Correctness, Measurement, Status
from ..timing.sampling import Timing
from ..workers.channel import Message

NO_NUMPY = "compared with IREE's default module only: NumPy does not know all of its operations"


def at_speed_of(default_ms: float, timing: Timing, default: Timing) -> Timing:
    """Return a timing as it would be where the default module takes `default_ms`.

    Trials come minutes after one another, and a processor that others use has another speed then: what is compared are
    times relative to the default module's.
    """
    drift = default_ms / default.measurement.median_ms
    samples = tuple(item * drift for item in timing.measurement.samples_ms)
    method = f"{timing.measurement.method}, times {drift:.3f} for the speed of the first trial"
    return replace(timing, measurement=Measurement(samples_ms=samples, method=method))


def correct(messages: Sequence[Message]) -> bool:
    """Return whether all comparisons of a module passed."""
    return all(message["status"] == Status.OK for message in messages)


def judged(messages: Sequence[Message], seeds: Sequence[int]) -> dict[str, Any]:
    """Return the fields of an evaluation that its comparisons give."""
    last = messages[-1]
    by_numpy = [message["rms_error"] for message in messages if message["rms_error"] is not None]
    correctness = Correctness(
        seeds=tuple(seeds[: len(messages)]),
        max_abs_error=max(message["max_abs_error"] for message in messages),
        max_rel_error=max(message["max_rel_error"] for message in messages),
        tolerance=last["tolerance"],
        passed=correct(messages),
        error_fp64=max(by_numpy, default=None),
        deterministic=all(message["deterministic"] for message in messages),
    )
    remark = "" if by_numpy else NO_NUMPY
    return {"status": Status(last["status"]), "message": last["message"] or remark, "correctness": correctness}


def timed(own: Timing, default: Timing | None, contention: float | None, on_cpu: bool) -> dict[str, Any]:
    """Return the fields of an evaluation that its timing gives."""
    return {
        "measurement": own.measurement,
        "reference": default.measurement if default else None,
        "cores_used": own.cores if on_cpu else None,
        "contention": contention,
    }
