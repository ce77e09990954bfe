"""What tests ask of an evaluator's access to its device."""

from __future__ import annotations

from kernelwright.evaluators.pipeline.device_access import DeviceAccess


def is_exclusive(access: DeviceAccess) -> bool:
    """Whether all others wait for it."""
    return is_held(access) and access._lock is not None and not access._lock.is_shared


def is_held(access: DeviceAccess) -> bool:
    """Whether others that measure wait for it."""
    return access._lock is not None and access._lock.is_held
