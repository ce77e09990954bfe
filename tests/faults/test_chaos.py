"""Kills at random moments: of the command or of one of its processes, each followed by `--resume`.

TESTS_CHAOS_KILLS says how many kills, by default 6, which are drawn among the commands;
TESTS_CHAOS_SEED repeats a run's choices; TESTS_CHAOS_RECORD names a file that counts the kills of all
runs.
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

import pytest
from kernelwright.evaluators.replay.saved import saved_plan

from .chaos_commands import COMMANDS, Command, Place, searched, verdicts

KILLS = int(os.environ.get("TESTS_CHAOS_KILLS", "6"))
SEED = int(os.environ.get("TESTS_CHAOS_SEED", str(random.SystemRandom().randrange(10**6))))
RECORD = os.environ.get("TESTS_CHAOS_RECORD")
IN_A_ROW = 3
"""So many times a command is killed at most before it comes to its end: `--resume` is killed too."""
DRAWN = Counter(random.Random(SEED).choices(list(COMMANDS), [command.weight for command in COMMANDS.values()], k=KILLS))


def kill_something(place: Place, run: subprocess.Popen[str], draw: random.Random) -> tuple[str, str]:
    """Kill the command, or one of the processes that belong to it.

    Returns which, with its command line, or nothing where all has ended.
    """
    others = [pid for pid in place.processes() if pid != run.pid]
    if run.poll() is not None:
        return "", "nothing was killed"
    if not others or draw.random() < 0.5:
        run.send_signal(signal.SIGKILL)
        return "the command", "the command was killed"
    with contextlib.suppress(OSError):
        victim = draw.choice(others)
        line = Path(f"/proc/{victim}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        os.kill(victim, signal.SIGKILL)
        return "one of its processes", f"process {victim} was killed: {line}"
    return "", "nothing was killed"


def record(name: str, victims: Counter[str], seconds: float) -> None:
    """Add the kills of a command to the file that counts them."""
    if not RECORD:
        return
    path = Path(RECORD)
    document = json.loads(path.read_text()) if path.exists() else {"seeds": [], "commands": {}}
    document["seeds"] = sorted({*document["seeds"], SEED})
    row = document["commands"].setdefault(name, {"kills": 0, "seconds": 0.0})
    for victim, times in victims.items():
        row[victim] = row.get(victim, 0) + times
    row["kills"] += victims.total()
    row["seconds"] = round(row["seconds"] + seconds, 1)
    document["kills"] = sum(row["kills"] for row in document["commands"].values())
    path.write_text(json.dumps(document, indent=1) + "\n")


def require_nothing_lost(command: Command, place: Place, context: str) -> set[tuple[str, ...]]:
    """No evaluation is there twice, and every file is whole; return what was measured."""
    place.require_whole()
    kept = verdicts(place)
    measured = {key: times for key, times in kept.items() if key[-1] != "not_measured"}
    assert all(measured[key] == 1 for key in searched(measured)), context
    return set(measured)


@pytest.mark.timeout(300 + 120 * KILLS)
@pytest.mark.parametrize("name", COMMANDS)
def test_kills_lose_and_repeat_nothing(name: str, tmp_path: Path) -> None:
    command = COMMANDS[name]
    if not DRAWN[name]:
        pytest.skip(f"no kill was drawn for it with seed {SEED}")
    if command.needs:
        pytest.importorskip(command.needs)
    before = None
    cache = None if command.leaves.startswith("cache/") else tmp_path / "cache"
    if command.first:
        place = Place(tmp_path / "before", cache=cache)
        place.finished(command.first)
        before = place.folder
    undisturbed = Place(tmp_path / "undisturbed", before, cache)
    started = time.monotonic()
    with undisturbed.person():
        code = undisturbed.finished(command.words)
    seconds = time.monotonic() - started
    undisturbed.require_clean()
    assert not command.leaves or list(undisturbed.folder.glob(command.leaves))
    expected = set(verdicts(undisturbed))
    kills, number = 0, 0
    while kills < DRAWN[name]:
        began, victims = time.monotonic(), Counter[str]()
        assert number < 3 * DRAWN[name] + 9, "it ends before it can be killed"
        draw = random.Random(f"{SEED} {name} {number}")
        place = Place(tmp_path / str(number), before, cache)
        words, said = command.words, [f"seed {SEED}, {name}, folder {number}"]
        with place.person():
            for _ in range(draw.randint(1, IN_A_ROW)):
                known = place.journals()
                with place.start(*words) as run:
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        run.wait(draw.uniform(0.1, 0.95) * seconds)
                    victim, remark = kill_something(place, run, draw)
                    said += [remark, place.output(run)]
                context = "\n".join(said)
                assert "Traceback" not in context, context
                victims.update([victim] if victim else [])
                for path, records in known.items():
                    assert place.journals()[path][: len(records)] == records, context
                require_nothing_lost(command, place, context)
                words = (*command.words, *command.again)
            known = place.journals()
            ended = place.finished(words)
        for path, records in known.items():
            assert place.journals()[path][: len(records)] == records, context
        measured = require_nothing_lost(command, place, context)
        if command.repeats:
            assert ended == code or {ended, code} <= {0, 3}, context
            assert searched(measured) == searched(expected), context
            assert measured > searched(measured) or expected == searched(expected), context
        assert command.trials is None or len(searched(measured)) == len(searched(expected)) == command.trials, context
        assert bool(measured) == bool(expected), context
        assert not command.leaves or list(place.folder.glob(command.leaves)), context
        if name == "plan":
            assert saved_plan(place.folder / "plan").steps, context
        place.require_clean()
        number += 1
        kills += victims.total()
        record(name, victims, time.monotonic() - began)
