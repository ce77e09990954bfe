"""What counts as evidence that the machine is why something failed, and what does not."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kernelwright.evaluators.workers.shortages import (
    MemoryState,
    killed_for_memory,
    lacked,
    memory_state,
    refuses_to_write,
    within,
)

GIB = 1 << 30
BEFORE, AFTER = MemoryState(3, 8 * GIB), MemoryState(4, 0)


def test_the_state_can_be_read() -> None:
    state = memory_state()
    assert state.kills >= 0
    assert state.available > 0


def test_a_process_that_the_system_killed_for_others_memory_is_not_to_blame() -> None:
    cause = killed_for_memory(-9, BEFORE, AFTER, grown=GIB)
    assert cause is not None and "had taken 1024 MiB of 8192 MiB that were free" in cause


@pytest.mark.parametrize(
    ("code", "after", "grown"),
    [
        (-9, AFTER, 5 * GIB),  # it took most of what was free
        (-9, MemoryState(3, 0), GIB),  # nobody was killed for memory: it may have killed itself
        (-11, AFTER, GIB),
        (1, AFTER, GIB),
        (None, AFTER, GIB),
    ],
)
def test_what_shows_no_shortage_is_the_processs_own(code: int | None, after: MemoryState, grown: int) -> None:
    assert killed_for_memory(code, BEFORE, after, grown) is None


@contextmanager
def limited(kind: int, most: int) -> Iterator[None]:
    """Lower a soft limit of this process for a while."""
    before = resource.getrlimit(kind)
    resource.setrlimit(kind, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(kind, before)


def test_a_full_disk_is_shown_by_a_write_of_our_own(small_disk: Path) -> None:
    said = "OSError: [Errno 28] No space left on device"
    assert refuses_to_write(small_disk) is None
    assert lacked(said, small_disk, 8.0) is None, "the disk has room: what filled it is gone, and was its own"
    (small_disk / "others").write_bytes(bytes((4 << 20) - (1 << 18)))
    cause = lacked(said, small_disk, 8.0)
    assert cause is not None and "No space left on device; make room" in cause
    assert lacked("ValueError: no", small_disk, 8.0) is None, "a full disk is not an excuse for other failures"


def test_a_limit_of_this_process_is_no_full_disk(tmp_path: Path) -> None:
    with limited(resource.RLIMIT_FSIZE, 1 << 16):
        assert refuses_to_write(tmp_path) is None


def test_a_workers_limit_is_at_most_an_inherited_one() -> None:
    program = (
        "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20));"
        "from pathlib import Path; from kernelwright.evaluators.workers.shortages import lacked, within;"
        "print(within(resource.RLIMIT_FSIZE, 1 << 30)); print(lacked('File too large', Path('.'), 8.0));"
        "print(lacked('File too large', Path('.'), 2**-12))"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    most, cause, own = said.splitlines()
    assert most == str(1 << 20)
    assert cause == "files are limited to 1024 KiB by `ulimit -f`; raise that limit"
    assert own == "None", "below the inherited limit it is the worker's own limit that was reached"
    assert within(resource.RLIMIT_FSIZE, 1 << 30) == 1 << 30
