"""Servers that are forked from a process which has imported the libraries before."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kernelwright.core.environment import allowed_environment
from kernelwright.evaluators.workers import warm_server
from kernelwright.evaluators.workers.fork_server import NICE
from kernelwright.evaluators.workers.server_client import ForkServer, import_path
from kernelwright.evaluators.workers.warm_server import VARIABLE, place_in

INTERPRETED = {"TRITON_INTERPRET": "1"}


def parent_of(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def environment() -> dict[str, str]:
    return {**allowed_environment(os.environ), **import_path(), **INTERPRETED}


@pytest.fixture
def warm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[bytes]]:
    """One that has imported next to nothing, so that it is there at once."""
    monkeypatch.setenv(VARIABLE, str(tmp_path / "warm"))
    place = place_in(tmp_path / "warm", environment())
    place.mkdir(parents=True)
    command = [sys.executable, "-P", "-m", warm_server.__name__, str(place), "json", "not_installed"]
    with subprocess.Popen(command, env=environment()) as process:
        deadline = time.monotonic() + 60
        while not (place / "socket").exists():
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.01)
        yield process
        process.kill()


def test_servers_are_forked_from_it_and_end_with_their_clients(warm: subprocess.Popen[bytes], tmp_path: Path) -> None:
    servers = [ForkServer(["json"], INTERPRETED) for _ in range(2)]
    assert {parent_of(server.pid) for server in servers} == {warm.pid}
    pids = [server.pid for server in servers]
    for server in servers:
        server.load("csv")
        assert server.alive
        server.close()
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_a_server_has_the_folder_and_the_variables_that_were_asked_for(
    warm: subprocess.Popen[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    server = ForkServer([], {**INTERPRETED, NICE: "3"})
    try:
        assert parent_of(server.pid) == warm.pid
        assert Path(f"/proc/{server.pid}/cwd").resolve() == tmp_path
        assert os.getpriority(os.PRIO_PROCESS, server.pid) == os.getpriority(os.PRIO_PROCESS, 0) + 3
    finally:
        server.close()


def test_a_gpu_and_other_variables_of_a_start_need_another_process(
    warm: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = ForkServer([], {})
    try:
        assert parent_of(server.pid) == os.getpid()
    finally:
        server.close()
    folder = Path(os.environ[VARIABLE])
    assert place_in(folder, environment()) == place_in(folder, {**environment(), "HOME": "/elsewhere"})
    assert place_in(folder, environment()) != place_in(folder, {**environment(), "PYTHONPATH": "/elsewhere"})


def test_compilers_for_a_gpu_see_none_and_are_forked_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "warm"))
    monkeypatch.setattr(warm_server, "known_languages", tuple)
    monkeypatch.setattr(warm_server, "_ALSO_IMPORTED", ())
    servers = [ForkServer(["json"], {"CUDA_VISIBLE_DEVICES": ""}) for _ in range(2)]
    parents = {parent_of(server.pid) for server in servers}
    for server in servers:
        server.close()
    shutil.rmtree(tmp_path / "warm")
    assert len(parents) == 1 and os.getpid() not in parents


CONFINED = """
import ctypes, socket, sys, tempfile
assert ctypes.CDLL(None).prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS, before any filter or Landlock
from kernelwright.evaluators.workers import warm_server
with socket.socketpair()[0] as channel, tempfile.TemporaryFile() as errors:
    forked = warm_server.forked_server([], {**eval(sys.argv[1])}, channel, errors)
print(forked is None)
"""


def test_what_is_confined_gets_no_server_that_is_not(warm: subprocess.Popen[bytes]) -> None:
    command = [sys.executable, "-P", "-c", CONFINED, repr(environment())]
    variables = {**environment(), VARIABLE: os.environ[VARIABLE]}
    run = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    assert run.stdout == "True\n", run.stderr
    free = ForkServer([], INTERPRETED)
    try:
        assert parent_of(free.pid) == warm.pid
    finally:
        free.close()


def test_it_ends_with_its_folder(warm: subprocess.Popen[bytes]) -> None:
    shutil.rmtree(os.environ[VARIABLE])
    assert warm.wait(30) == 0


def test_one_that_was_killed_is_replaced(warm: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm_server, "known_languages", tuple)
    monkeypatch.setattr(warm_server, "_ALSO_IMPORTED", ())
    warm.kill()
    warm.wait()
    server = ForkServer(["json"], INTERPRETED)
    try:
        assert server.alive and parent_of(server.pid) not in (warm.pid, os.getpid())
    finally:
        server.close()
