"""What tests ask of an evaluator's turn on its device."""

from __future__ import annotations

from kernelwright.evaluators.pipeline.turn import Turn


def has_turn(turn: Turn) -> bool:
    """Whether others wait for it."""
    return turn._lock is not None and turn._lock.is_held
