"""The device lock in a folder that other users of the machine reach."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kernelwright.evaluators.workers import device_lock
from kernelwright.evaluators.workers.device_lock import DeviceLock


@pytest.fixture
def shared_folder() -> Iterator[Path]:
    """One that other users reach."""
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="kernelwright-locks-") as name:
        Path(name).chmod(0o755)
        folder = Path(name) / "locks"
        folder.mkdir()
        folder.chmod(0o1777)
        yield folder


@pytest.fixture
def another_users(shared_folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process of another user that locked the device for ever."""
    if os.getuid() != 0 or shutil.which("flock") is None:
        pytest.skip("only root, with flock, can be another user")
    paths = [DeviceLock("cpu", shared_folder).path, DeviceLock("cpu", shared_folder)._next]
    command = f"umask 0; touch {paths[0]} {paths[1]}; exec flock {paths[0]} flock {paths[1]} sleep 1000"
    with subprocess.Popen(["sh", "-c", command], user=65534, group=65534, extra_groups=[]) as process:
        deadline = time.monotonic() + 20
        while DeviceLock("cpu", shared_folder).is_free:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        yield process
        for pid in subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True).stdout.split():
            os.kill(int(pid), signal.SIGKILL)
        process.kill()


def test_another_user_holds_nobody_up_for_ever(
    shared_folder: Path,
    another_users: subprocess.Popen[bytes],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(device_lock, "REPORTED_AFTER_S", 0.1)
    monkeypatch.setattr(device_lock, "OTHERS_S", 2)
    monkeypatch.setattr(device_lock, "_passed", set())
    lock = DeviceLock("cpu", shared_folder)
    with lock.held():
        assert lock.is_held
    assert "of nobody has it" in caplog.text and "going on without it" in caplog.text
    began = time.monotonic()
    for shared in (True, False):
        with DeviceLock("cpu", shared_folder).held(shared):
            pass
    assert time.monotonic() - began < 2, "it is not waited for again"


@pytest.mark.parametrize("obstacle", ["folder of another user", "file that is none", "link"])
def test_what_others_left_in_the_shared_place_does_not_stop_anybody(
    shared_folder: Path, obstacle: str, caplog: pytest.LogCaptureFixture
) -> None:
    lock = DeviceLock("cpu", shared_folder)
    if obstacle == "folder of another user":
        if os.getuid() != 0:
            pytest.skip("only root can give a folder away")
        shared_folder.chmod(0o777)
        os.chown(shared_folder, 65534, 65534)
    elif obstacle == "link":
        lock.path.symlink_to(shared_folder / "elsewhere")
    else:
        lock.path.mkdir()
    with lock.held():
        assert lock.is_held and not DeviceLock("cpu", lock.path.parent).is_free
    assert lock.path.parent != shared_folder and lock.path.parent.stat().st_mode & 0o777 == 0o700
    assert "cannot lock the device by" in caplog.text and not (shared_folder / "elsewhere").exists()
