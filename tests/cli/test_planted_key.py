"""A key for the model, planted: after a whole run it is nowhere but with the model."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from ..agent.conversations.telling import READY, analysis, changed, submit
from ..conftest import SCALE_KERNEL, SCALE_PROBLEM
from ..openai_server import Fail, OpenAIServer, Recorded
from ..surroundings import WARM_SERVER

STEPS = (
    READY,
    analysis("memory", ["each row is read once"], ("larger tiles", "the grid", "fewer blocks", 1.2)),
    submit(changed(SCALE_KERNEL, ("BLOCK = 8", "BLOCK = 16")), "larger tiles", "Fewer blocks do the same."),
)

FORKED_S = 5.0
"""Within so many seconds a process that was forked has become another program."""


def holders(key: bytes) -> Iterator[tuple[int, str]]:
    """The processes, with their commands, whose environment holds the key."""
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if key in (place / "environ").read_bytes():
                yield int(place.name), (place / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:  # it has ended, or is another user's
            continue


def files_with(key: bytes, *folders: Path) -> list[Path]:
    """The files below these folders that hold the key, in their contents or their names."""
    found = [path for folder in folders for path in folder.rglob("*") if key.decode() in path.name]
    for path in (path for folder in folders for path in folder.rglob("*") if path.is_file()):
        if key in path.read_bytes():
            found.append(path)
    return found


@dataclass(frozen=True)
class Planted:
    """A whole run with a key, and where it left something."""

    key: str
    folder: Path
    said: str
    """On its standard output and error."""
    requests: list[Recorded]
    holders: dict[int, str]
    """Other processes than the command's own that had the key in their environment, and what they ran."""


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Planted:
    key, folder = f"sk-planted-{secrets.token_hex(16)}", tmp_path_factory.mktemp("planted")
    for name, text in (("999_Scale.py", SCALE_PROBLEM), ("1_999.py", SCALE_KERNEL)):
        (folder / name).write_text(text)
    places = {name: folder / name for name in ("KERNELWRIGHT_CACHE", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "TMPDIR")}
    for place in places.values():
        place.mkdir()
    own = {name: value for name, value in os.environ.items() if name not in (WARM_SERVER, "KERNELWRIGHT_ARCHIVE")}
    environment = {**own, **{name: str(path) for name, path in places.items()}, "OPENAI_API_KEY": key}
    command = [sys.executable, "-P", "-m", "kernelwright", "optimize", "--kernel", "1_999.py", "--device", "cpu"]
    command += ["--problem", "999_Scale.py", "--max-iterations", "1", "--verbose", "--model", "openai/planted"]
    # A server that fails may repeat the key in its error, and is asked again.
    with OpenAIServer([STEPS[0], Fail(500, f"no luck with {key}"), *STEPS[1:]], key=key) as server:
        command += ["--api-base", server.base_url]
        run = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        with ThreadPoolExecutor(1) as watcher:
            watching = watcher.submit(_others, run, key.encode(), command)
            try:
                said, _ = run.communicate(timeout=240)
            finally:
                run.kill()
        assert run.returncode in (0, 3), said  # 3: nothing faster was found
        assert server.unused() == [] and server.errors == []
        return Planted(key, folder, said, server.requests, watching.result())


def _others(run: subprocess.Popen[str], key: bytes, command: list[str]) -> dict[int, str]:
    """The other processes that hold the key until the run ends. One that has been forked is the command's own, until it
    becomes another program."""
    first: dict[int, float] = {}
    others: dict[int, str] = {}
    while run.poll() is None:
        for pid, program in holders(key):
            new = time.monotonic() - first.setdefault(pid, time.monotonic()) < FORKED_S
            if pid != run.pid and not (new and program.split() == command):
                others[pid] = program
        time.sleep(0.01)
    assert run.pid in first
    return others


def test_the_key_is_in_no_prompt_file_or_message(planted: Planted) -> None:
    assert {recorded.headers["authorization"] for recorded in planted.requests} == {f"Bearer {planted.key}"}
    assert not any(planted.key in str(recorded.body) for recorded in planted.requests)
    assert "no luck with [key]" in planted.said and planted.key not in planted.said
    left = {path.name.partition("_")[0] for path in planted.folder.rglob("*.json*")}
    assert {"journal", "transcript", "optimization", "archive.jsonl"} <= left
    assert files_with(planted.key.encode(), planted.folder) == []


def test_the_key_is_in_no_other_processs_environment(planted: Planted) -> None:
    assert [*planted.holders.values()] == []
