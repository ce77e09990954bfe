"""`kernelwright mcp`: what it refuses before it serves."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from kernelwright.mcp_server import command

from .commands import kernelwright, refused


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--root", "none"), "--root none is not a folder; name the folder of your kernels"),
        (("--results", "../elsewhere"), "--results ../elsewhere is outside of --root ."),
        (("--max-trials", "0"), "--max-trials must be at least 1"),
        (("--max-seconds", "0"), "--max-seconds must be above 0"),
        (("--port", "0"), "--port must be from 1 to 65535"),
    ],
)
def test_wrong_usage(arguments: tuple[str, ...], says: str, tmp_path: Path) -> None:
    assert says in refused(kernelwright("mcp", *arguments, cwd=tmp_path))


def test_a_port_in_use(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        line = refused(kernelwright("mcp", "--transport", "http", "--port", port, "--device", "cpu", cwd=tmp_path))
    assert line == f"error: --port {port}: Address already in use; choose another one"


def test_without_the_extra_one_line_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "find_spec", lambda name: None)
    line = refused(kernelwright("mcp", cwd=tmp_path))
    assert line == "error: the server needs the MCP SDK; pip install 'kernelwright[mcp]'"


def test_without_a_sandbox_it_does_not_serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kernelwright.evaluators.sandbox import bubblewrap, landlock

    monkeypatch.setattr(bubblewrap, "obstacle", lambda places: "it is not installed")
    monkeypatch.setattr(landlock, "abi", lambda: 0)
    assert "no sandbox works on this machine; install bubblewrap" in refused(kernelwright("mcp", cwd=tmp_path))
