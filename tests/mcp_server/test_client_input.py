"""A server on stdio ends with its client, and when it is told to, whoever holds its input open."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..surroundings import KERNELWRIGHT

HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "a client", "version": "1"},
    },
}
CLIENT = """
import os, subprocess, sys, time
reads, writes = os.pipe()
os.set_inheritable(writes, True)
other = subprocess.Popen(["sleep", "120"], close_fds=False)
server = subprocess.Popen(sys.argv[2:], stdin=reads, stdout=subprocess.PIPE)
os.write(writes, (sys.argv[1] + "\\n").encode())
assert b"serverInfo" in server.stdout.readline()
print(other.pid, server.pid, flush=True)
time.sleep(120)
"""
"""It has a server and another process, which holds the server's input open too."""


class Connected:
    """A server that has answered its client once, which another process shares the input of."""

    def __init__(self, root: Path) -> None:
        server = [*KERNELWRIGHT, "mcp", "--root", str(root), "--device", "cpu"]
        command = [sys.executable, "-c", CLIENT, json.dumps(HELLO), *server]
        self.client = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self.client.stdout is not None
        self.other, self.server = map(int, self.client.stdout.readline().split())

    def ends_within(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while is_alive(self.server) and time.monotonic() < deadline:
            time.sleep(0.1)
        return not is_alive(self.server)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture
def connected(tmp_path: Path) -> Iterator[Connected]:
    connected = Connected(tmp_path)
    yield connected
    connected.client.kill()
    connected.client.wait()
    for pid in (connected.other, connected.server):
        if is_alive(pid):
            os.kill(pid, signal.SIGKILL)


def test_a_server_ends_with_a_client_that_is_killed(connected: Connected) -> None:
    connected.client.kill()
    connected.client.wait()
    assert is_alive(connected.other)
    assert connected.ends_within(20)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_server_ends_when_it_is_told_to(connected: Connected, number: signal.Signals) -> None:
    os.kill(connected.server, number)
    assert connected.ends_within(20)
    assert connected.client.poll() is None
