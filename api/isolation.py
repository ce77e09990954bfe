"""Which sandbox works on this machine, for those who must not do without one."""

from __future__ import annotations

from ..core import DeviceError
from ..evaluators.sandbox.containment import contain
from ..evaluators.settings import Sandbox


def required_sandbox(device: str) -> str:
    """The name of the first sandbox that works here; raises `DeviceError` where none does."""
    used = contain(Sandbox.AUTO, device).used
    if used is Sandbox.NONE:
        raise DeviceError("no sandbox works on this machine", "install bubblewrap, or use Linux 5.13 with Landlock")
    return used.value
