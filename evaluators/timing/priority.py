"""Raises the priority of what is timed on a CPU above that of other processes, where the system allows it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

TIMED_NICE = -20
"""On a core that it shares with an ordinary process, a thread gets 99 %."""


@contextlib.contextmanager
def raised(groups: Iterable[int]) -> Iterator[None]:
    """Run all threads of these process groups, each a session of its own, at the highest priority within the context.

    Without the right to do so (CAP_SYS_NICE, which root has) nothing changes.
    """
    with contextlib.ExitStack() as restoring:
        for group in groups:
            restoring.callback(_set(group))
        yield


def _set(group: int) -> Callable[[], None]:
    """Raise a group; return what sets it back."""
    try:
        before = os.getpriority(os.PRIO_PGRP, group)
        os.setpriority(os.PRIO_PGRP, group, TIMED_NICE)
    except OSError:
        return lambda: None
    # Where Linux shares the cores among sessions first, `nice` compares the threads of one session only.
    session = Path(f"/proc/{group}/autogroup")
    shared = _nice_of(session)
    if shared is not None:
        _write(session, TIMED_NICE)

    def restore() -> None:
        with contextlib.suppress(OSError):  # the group has ended
            os.setpriority(os.PRIO_PGRP, group, before)
        if shared is not None:
            _write(session, shared)

    return restore


def _nice_of(session: Path) -> int | None:
    """Return the number in '/autogroup-12 nice 0'; None where the system has no such groups."""
    try:
        return int(session.read_text().split()[-1])
    except (OSError, ValueError, IndexError):
        return None


def _write(session: Path, nice: int) -> None:
    with contextlib.suppress(OSError):
        session.write_text(str(nice))
