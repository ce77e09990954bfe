"""One measurement at a time on a device, whichever process asks."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from itertools import pairwise
from pathlib import Path

import pytest
from kernelwright.core import DeviceError
from kernelwright.evaluators.workers import device_lock
from kernelwright.evaluators.workers.device_lock import DeviceLock

HOLDER = """
import sys, time
from pathlib import Path
from kernelwright.evaluators.workers.device_lock import DeviceLock
with DeviceLock("GPU-1/2", Path(sys.argv[1])).held():
    print("held", flush=True)
    sys.stdin.read()
"""


def holder(folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", HOLDER, str(folder)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def says_held(process: subprocess.Popen[str]) -> threading.Event:
    held = threading.Event()
    assert process.stdout is not None
    threading.Thread(target=lambda out=process.stdout: out.readline() == "held\n" and held.set(), daemon=True).start()
    return held


@pytest.mark.parametrize("killed", [False, True])
def test_two_processes_exclude_each_other(tmp_path: Path, killed: bool) -> None:
    with holder(tmp_path) as first, holder(tmp_path) as second:
        events = [(first, says_held(first)), (second, says_held(second))]
        deadline = time.monotonic() + 30
        while not any(event.is_set() for _, event in events) and time.monotonic() < deadline:
            time.sleep(0.01)
        (popen, _), (other, waits) = sorted(events, key=lambda pair: not pair[1].is_set())
        assert not waits.wait(0.5)
        assert popen.stdin is not None and other.stdin is not None
        popen.kill() if killed else popen.stdin.close()
        assert waits.wait(10)
        other.stdin.close()
        assert other.wait(10) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["GPU-1-2.lock", "GPU-1-2.next"]


def test_the_lock_is_let_go_of_after_an_error(tmp_path: Path) -> None:
    lock = DeviceLock("cpu", tmp_path / "locks")
    with pytest.raises(ValueError, match="measured badly"), lock.held():
        raise ValueError("measured badly")
    with lock.held():
        assert lock.path.stat().st_mode & 0o777 == 0o666
        assert lock.path.parent.stat().st_mode & 0o7777 == 0o1777


def test_others_may_lock_where_it_is_left_for_a_while(tmp_path: Path) -> None:
    mine, order = DeviceLock("GPU-1", tmp_path), []

    def measure() -> None:
        with DeviceLock("GPU-1", tmp_path).held():
            order.append("another")

    other = threading.Thread(target=measure)
    with mine.held():
        other.start()
        other.join(0.2)
        assert order == [] and mine.is_held
        with contextlib.suppress(ValueError), mine.released():
            assert not mine.is_held
            other.join(20)
            order.append("compiled")
            raise ValueError("does not compile")
        assert mine.is_held
        order.append("again")
    assert order == ["another", "compiled", "again"] and not mine.is_held


def test_two_that_lock_again_and_again_take_turns(tmp_path: Path) -> None:
    order: list[int] = []
    ready = threading.Barrier(2)

    def measure(which: int) -> None:
        lock = DeviceLock("GPU-1", tmp_path)
        ready.wait()
        for _ in range(10):
            with lock.held():
                order.append(which)
                time.sleep(0.02)

    both = [threading.Thread(target=measure, args=(which,)) for which in range(2)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    changes = sum(before != after for before, after in pairwise(order))
    assert changes >= 12


def until_wanted(lock: DeviceLock) -> None:
    """Wait until somebody has the turn."""
    deadline = time.monotonic() + 20
    while not lock._is_wanted():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_several_that_check_share_the_device_until_one_measures(tmp_path: Path) -> None:
    first, second, order = DeviceLock("GPU-1", tmp_path), DeviceLock("GPU-1", tmp_path), []

    def measure() -> None:
        with DeviceLock("GPU-1", tmp_path).held():
            order.append("measured")

    def check() -> None:
        with DeviceLock("GPU-1", tmp_path).held(shared=True):
            order.append("checked")

    measures, checks = threading.Thread(target=measure), threading.Thread(target=check)
    with first.held(shared=True):
        with second.held(shared=True):
            assert first.is_shared and second.is_shared
            measures.start()
            until_wanted(first)
            checks.start()
            checks.join(0.2)
            assert order == [], "who checks waits behind who measures"
        measures.join(0.2)
        assert order == []
    measures.join(20)
    checks.join(20)
    assert order == ["measured", "checked"] and not first.is_held and not first.is_shared


def test_who_shares_the_device_may_have_it_alone_for_a_while(tmp_path: Path) -> None:
    mine, order = DeviceLock("GPU-1", tmp_path), []
    checking, done = threading.Event(), threading.Event()

    def check() -> None:
        with DeviceLock("GPU-1", tmp_path).held(shared=True):
            checking.set()
            done.wait(20)
            order.append("checked")

    other = threading.Thread(target=check)
    with mine.held(shared=True):
        other.start()
        assert checking.wait(20), "they share it"
        threading.Timer(0.2, done.set).start()
        with mine.exclusive():
            order.append("measured")
            assert mine.is_held and not mine.is_shared
        assert mine.is_shared
    assert order == ["checked", "measured"]


def test_who_checks_gives_way_to_who_measures(tmp_path: Path) -> None:
    mine, order = DeviceLock("GPU-1", tmp_path), []

    def measure() -> None:
        with DeviceLock("GPU-1", tmp_path).held():
            order.append("measured")

    other = threading.Thread(target=measure)
    with mine.held(shared=True):
        mine.yield_to_waiter()
        order.append("first step")
        other.start()
        deadline = time.monotonic() + 20
        while order[-1] != "measured" and time.monotonic() < deadline:
            time.sleep(0.01)
            mine.yield_to_waiter()
        order.append("second step")
        assert mine.is_shared
    other.join(20)
    assert order == ["first step", "measured", "second step"]


def test_who_has_the_device_alone_gives_no_way(tmp_path: Path) -> None:
    mine, came = DeviceLock("GPU-1", tmp_path), threading.Event()

    def measure() -> None:
        with DeviceLock("GPU-1", tmp_path).held():
            came.set()

    other = threading.Thread(target=measure)
    with mine.held():
        other.start()
        until_wanted(mine)
        mine.yield_to_waiter()
        assert mine.is_held and not came.is_set()
    other.join(20)
    assert came.is_set()


def test_who_shares_the_device_may_keep_it_to_the_end(tmp_path: Path) -> None:
    mine, order = DeviceLock("GPU-1", tmp_path), []

    def check() -> None:
        with DeviceLock("GPU-1", tmp_path).held(shared=True):
            order.append("another")

    other = threading.Thread(target=check)
    with mine.held(shared=True):
        mine.upgrade_to_exclusive()
        assert mine.is_held and not mine.is_shared
        other.start()
        until_wanted(mine)
        assert order == []
    other.join(20)
    assert order == ["another"]


def test_what_is_alone_for_a_while_is_shared_again_after_an_error(tmp_path: Path) -> None:
    mine = DeviceLock("GPU-1", tmp_path)
    with mine.held(shared=True):
        with pytest.raises(ValueError, match="measured badly"), mine.exclusive():
            raise ValueError("measured badly")
        assert mine.is_shared
        with DeviceLock("GPU-1", tmp_path).held(shared=True), mine.released():
            assert not mine.is_held
        assert mine.is_shared


def test_whether_a_device_is_free_is_known_without_a_wait(tmp_path: Path) -> None:
    here, there = DeviceLock("a", tmp_path / "locks"), DeviceLock("a", tmp_path / "locks")
    assert here.is_free and not (tmp_path / "locks").exists()
    for shared in (True, False):
        with there.held(shared):
            assert not here.is_free
        assert here.is_free
    with there.held(shared=True):
        waits = threading.Thread(target=lambda: here._take(shared=False))
        waits.start()
        until_wanted(there)
        assert not DeviceLock("a", tmp_path / "locks").is_free
    waits.join()
    here._release()
    here.path.unlink()
    here.path.mkdir()
    assert not here.is_free, "taking it will say why"


def test_other_devices_do_not_wait(tmp_path: Path) -> None:
    with DeviceLock("GPU-1", tmp_path).held(), DeviceLock("GPU-2", tmp_path).held():
        assert len(list(tmp_path.glob("*.lock"))) == 2


def test_a_long_wait_names_the_holder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(device_lock, "REPORTED_AFTER_S", 0.1)
    with holder(tmp_path) as first:
        assert says_held(first).wait(30)
        assert first.stdin is not None
        threading.Timer(0.5, first.stdin.close).start()
        with DeviceLock("GPU-1/2", tmp_path).held():
            pass
    assert f"process {first.pid} of " in caplog.text


def test_a_stopped_process_of_the_same_user_is_named_and_waited_for_within_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_lock, "REPORTED_AFTER_S", 0.1)
    monkeypatch.setattr(device_lock, "OWN_S", 0.5)
    monkeypatch.setattr(device_lock, "OTHERS_S", 0.2)
    with holder(tmp_path) as first:
        assert says_held(first).wait(30)
        first.send_signal(signal.SIGSTOP)
        with pytest.raises(DeviceError, match=rf"process {first.pid} of \w+, which is stopped, has not .* end it"):
            DeviceLock("GPU-1/2", tmp_path).held().__enter__()
        first.kill()
        with DeviceLock("GPU-1/2", tmp_path).held():
            pass


def test_locking_leaves_what_other_threads_write_alone(tmp_path: Path) -> None:
    """The umask is the whole process's."""
    lock, before = DeviceLock("cpu", tmp_path / "locks"), os.umask(0o27)
    done = threading.Event()

    def work() -> None:
        while not done.is_set():
            with lock.held():
                pass

    thread = threading.Thread(target=work)
    thread.start()
    try:
        for number in range(300):
            path = tmp_path / str(number)
            path.touch()
            assert path.stat().st_mode & 0o777 == 0o640
    finally:
        done.set()
        thread.join()
        os.umask(before)
