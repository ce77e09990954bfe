"""Kills at random moments: of the command or of one of its processes, each followed by `--resume`.

KERNELWRIGHT_CHAOS_KILLS says how many kills, by default 10; KERNELWRIGHT_CHAOS_SEED repeats a run's choices.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from kernelwright.core import Journal

from ..cli.commands import SCALE
from ..cli.tuning import workplace
from ..surroundings import KERNELWRIGHT, WARM_SERVER

KILLS = int(os.environ.get("KERNELWRIGHT_CHAOS_KILLS", "10"))
SEED = int(os.environ.get("KERNELWRIGHT_CHAOS_SEED", str(random.SystemRandom().randrange(10**6))))
COMMANDS = {
    "tune": ["tune", "kernel", "1_999.py", *SCALE, "--param", "BLOCK=0,4,8,16", "--tuner", "grid", "--no-save"],
    "optimize": ["optimize", "--kernel", "1_999.py", *SCALE, "--max-iterations", "1", "--no-archive"],
}
ENDS = (0, 1, 3)
"""Exit codes of commands that came to their end."""


class Place:
    """A user's folder, and its own temporary folder, in which nothing may be left."""

    def __init__(self, folder: Path) -> None:
        self.folder = workplace(folder / "work")
        self.temporary = folder / "tmp"
        self.temporary.mkdir()
        known = {name: value for name, value in os.environ.items() if name != WARM_SERVER}
        self._environment = {**known, "TMPDIR": str(self.temporary)}

    def start(self, *command: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*KERNELWRIGHT, *command],
            cwd=self.folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def journals(self) -> dict[Path, list[dict[str, Any]]]:
        found = {}
        for path in sorted(self.folder.rglob("*.jsonl")):
            whole = path.read_text().rpartition("\n")[0]  # a torn last line is none
            found[path] = [json.loads(line) for line in whole.splitlines()]
        return found

    def processes(self) -> list[int]:
        """Processes that were started here, or live here."""
        found = []
        for place in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                here = f"TMPDIR={self.temporary}".encode() in (place / "environ").read_bytes()
                if here or (place / "cwd").readlink().is_relative_to(self.temporary.resolve()):
                    found.append(int(place.name))
        return found

    def require_clean(self) -> None:
        deadline = time.monotonic() + 10
        while self.processes() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert self.processes() == [], "no process is left"
        assert [path.name for path in self.temporary.glob("kernelwright-*")] == [], "no folder is left"
        for path in self.journals():
            Journal(path).close()  # no lock is left


def verdicts(journals: dict[Path, list[dict[str, Any]]]) -> Counter[tuple[str, ...]]:
    """What was found of each kernel and config, once for each time that it was measured."""
    found: Counter[tuple[str, ...]] = Counter()
    for path, records in journals.items():
        for record in records:
            if record["kind"] == "trial":
                told = record["evaluation"]
                config = json.dumps(told["config"], sort_keys=True)
                found[path.name, record["origin"], told["kernel_digest"], config, told["status"]] += 1
    return found


def finished(place: Place, command: list[str]) -> str:
    with place.start(*command) as run:
        assert run.stdout is not None
        said = run.stdout.read()
    assert run.returncode in ENDS, said
    assert "Traceback" not in said
    return said


def kill_something(place: Place, run: subprocess.Popen[str], draw: random.Random) -> str:
    """Kill the command, or one of the processes that belong to it."""
    if draw.random() < 0.5:
        run.send_signal(signal.SIGKILL)
        return "the command"
    others = [pid for pid in place.processes() if pid != run.pid]
    if not others:
        return "nothing"
    with contextlib.suppress(OSError):
        os.kill(draw.choice(others), signal.SIGKILL)
    return f"one of {len(others)} processes"


@pytest.fixture(scope="module", params=COMMANDS)
def undisturbed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, float, Any]:
    """A command, the seconds that it takes, and what it finds where nobody kills anything."""
    place = Place(tmp_path_factory.mktemp(request.param))
    began = time.monotonic()
    finished(place, COMMANDS[request.param])
    seconds = time.monotonic() - began
    place.require_clean()
    return request.param, seconds, verdicts(place.journals())


@pytest.mark.timeout(60 + 40 * KILLS)
def test_kills_lose_and_repeat_nothing(undisturbed: tuple[str, float, Any], tmp_path: Path) -> None:
    name, seconds, expected = undisturbed
    share = KILLS // 2 if name == "optimize" else KILLS - KILLS // 2
    for number in range(share):
        draw = random.Random(f"{SEED} {name} {number}")
        place = Place(tmp_path / str(number))
        with place.start(*COMMANDS[name]) as run:
            with contextlib.suppress(subprocess.TimeoutExpired):
                run.wait(draw.uniform(0.2, 0.95) * seconds)
            victim = kill_something(place, run, draw)
            assert run.stdout is not None
            said = run.stdout.read()
        context = f"seed {SEED}, kill {number} of {name}: {victim}\n{said}"
        assert "Traceback" not in said, context
        before = place.journals()
        finished(place, [*COMMANDS[name], "--resume"])
        after = place.journals()
        for path, records in before.items():
            assert after[path][: len(records)] == records, context
        told = verdicts(after)
        measured = Counter({key: times for key, times in told.items() if key[-1] != "not_measured"})
        finals = {key for key in measured if key[1].startswith("final")}  # which these are depends on what was timed
        searched = set(measured) - finals
        assert all(measured[key] == 1 for key in searched), context
        if name == "tune":
            assert searched == {key for key in expected if not key[1].startswith("final")}, context
            assert finals, context
        assert measured, context
        place.require_clean()
