"""What tests ask of an evaluator's access to its device."""

from __future__ import annotations

from kernelwright.evaluators.pipeline.device_access import DeviceAccess


def is_exclusive(access: DeviceAccess) -> bool:
    """Whether others wait for it."""
    return access._lock is not None and access._lock.is_held
