"""Answers of the process in which machine code of others runs."""

from __future__ import annotations

from typing import Any

import pytest
from kernelwright.core import Status
from kernelwright.evaluators.iree.answers import read_answer
from pydantic import ValidationError

CHECKED = {
    "status": "ok", "message": "", "max_abs_error": 0.0, "max_rel_error": 0.0, "rms_error": None, "tolerance": 0.0,
    "deterministic": True,
}  # fmt: skip
TIMED = {"samples_ms": [0.5], "cores": 1.0, "method": "wall clock"}


def test_answers_are_read() -> None:
    assert read_answer("check", {"ok": True, **CHECKED}) == {**CHECKED, "status": Status.OK}
    assert read_answer("time", {"ok": True, **TIMED}) == TIMED  # host_ms is told only where it was measured
    assert read_answer("load", {"ok": True}) == {}
    assert read_answer("check", {"ok": False, "error": "stop"}) == {"error": "stop"}


@pytest.mark.parametrize(
    ("op", "answer"),
    [
        ("load", {}),
        ("load", {"ok": 1}),
        ("load", {"ok": True, "more": 1}),
        ("check", {"ok": True}),
        ("check", {"ok": True, **CHECKED, "status": "fine"}),
        ("check", {"ok": True, **CHECKED, "max_abs_error": float("nan")}),
        ("check", {"ok": True, **CHECKED, "message": "x" * 10_000}),
        ("time", {"ok": True, **TIMED, "samples_ms": []}),
        ("time", {"ok": True, **TIMED, "samples_ms": [0.0]}),
        ("time", {"ok": True, **TIMED, "samples_ms": [float("inf")]}),
        ("time", {"ok": False, "error": {}}),
    ],
)
def test_others_are_refused(op: str, answer: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        read_answer(op, answer)
