"""Kills at random moments: of the command or of one of its processes, each followed by `--resume`.

KERNELWRIGHT_CHAOS_KILLS says how many kills, by default 6, which are drawn among the commands;
KERNELWRIGHT_CHAOS_SEED repeats a run's choices.
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
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from kernelwright.core import Journal
from kernelwright.evaluators.replay.saved import saved_plan

from ..cli.commands import SCALE
from ..cli.tuning import workplace
from ..surroundings import KERNELWRIGHT, WARM_SERVER

KILLS = int(os.environ.get("KERNELWRIGHT_CHAOS_KILLS", "6"))
SEED = int(os.environ.get("KERNELWRIGHT_CHAOS_SEED", str(random.SystemRandom().randrange(10**6))))
PRODUCT = """func.func @f(%l: tensor<8x16xf32>, %r: tensor<16x8xf32>, %o: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = linalg.matmul ins(%l, %r : tensor<8x16xf32>, tensor<16x8xf32>) outs(%o : tensor<8x8xf32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
"""
PLAIN = ("--device", "cpu", "--sandbox", "none")


class Command(NamedTuple):
    """A command for a user's folder."""

    words: tuple[str, ...]
    again: tuple[str, ...] = ("--resume",)
    """What the second call has beside them: a command without a journal begins anew."""
    repeats: bool = True
    """Whether all runs find the same, up to timing."""
    weight: int = 1
    needs: str = ""
    """A package."""


BLOCKS = ("--param", "BLOCK=0,4,8,16", "--tuner", "grid", "--no-save")
SIZES = ("-m", "16", "-m", "17", "-n", "32", "-k", "32")
COMMANDS = {
    "tune kernel": Command(("tune", "kernel", "1_999.py", *SCALE, *BLOCKS), weight=3),
    "optimize": Command(
        ("optimize", "--kernel", "1_999.py", *SCALE, "--max-iterations", "1", "--no-archive"), repeats=False, weight=3
    ),
    "batch": Command(
        ("optimize", "--batch", "kernels.txt", "--dataset", ".", *PLAIN, "--max-iterations", "1", "--no-archive"),
        repeats=False,
    ),
    "tune gemm": Command(("tune", "gemm", *SIZES, *PLAIN, "--output", "configs"), needs="triton"),
    "tune mlir": Command(
        ("tune", "mlir", "product.mlir", "--tuner", "grid", "--trials", "3", "--sandbox", "none"), needs="iree"
    ),
    "evaluate": Command(("evaluate", "--kernel", "1_999.py", *SCALE), again=()),
    "plan": Command(("plan", "--kernel", "1_999.py", *SCALE, "--save-plan", "plan"), again=()),
}
DRAWN = Counter(random.Random(SEED).choices(list(COMMANDS), [command.weight for command in COMMANDS.values()], k=KILLS))
ENDS = (0, 1, 3)
"""Exit codes of commands that came to their end."""


class Place:
    """A user's folder, and its own temporary folder, in which nothing may be left."""

    def __init__(self, folder: Path) -> None:
        self.folder = workplace(folder / "work")
        (self.folder / "kernels.txt").write_text("1_999.py\n")
        (self.folder / "product.mlir").write_text(PRODUCT)
        self.temporary = folder / "tmp"
        self.temporary.mkdir()
        known = {name: value for name, value in os.environ.items() if name != WARM_SERVER}
        self._environment = {**known, "TMPDIR": str(self.temporary)}

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*KERNELWRIGHT, *words],
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


def verdicts(place: Place) -> Counter[tuple[str, ...]]:
    """What was found of each kernel and config, once for each time that it was measured."""
    found: Counter[tuple[str, ...]] = Counter()
    for path, records in place.journals().items():
        for record in records:
            if record["kind"] == "trial":
                told = record["evaluation"]
                config = json.dumps(told["config"], sort_keys=True)
                journal = str(path.relative_to(place.folder))
                found[journal, record["origin"], told["kernel_digest"], config, told["status"]] += 1
    return found


def searched(found: Iterable[tuple[str, ...]]) -> set[tuple[str, ...]]:
    """Those of a search: which configs are finalists depends on what was timed."""
    return {key for key in found if not key[1].startswith("final")}


def finished(place: Place, words: Iterable[str]) -> int:
    """Run a command to its end; return its exit code."""
    with place.start(*words) as run:
        assert run.stdout is not None
        said = run.stdout.read()
    assert run.returncode in ENDS, said
    assert "Traceback" not in said
    return run.returncode


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


@pytest.mark.timeout(200 + 60 * KILLS)
@pytest.mark.parametrize("name", COMMANDS)
def test_kills_lose_and_repeat_nothing(name: str, tmp_path: Path) -> None:
    command = COMMANDS[name]
    if not DRAWN[name]:
        pytest.skip(f"no kill was drawn for it with seed {SEED}")
    if command.needs:
        pytest.importorskip(command.needs)
    undisturbed = Place(tmp_path / "undisturbed")
    began = time.monotonic()
    code = finished(undisturbed, command.words)
    seconds = time.monotonic() - began
    undisturbed.require_clean()
    expected = verdicts(undisturbed)
    for number in range(DRAWN[name]):
        draw = random.Random(f"{SEED} {name} {number}")
        place = Place(tmp_path / str(number))
        with place.start(*command.words) as run:
            with contextlib.suppress(subprocess.TimeoutExpired):
                run.wait(draw.uniform(0.2, 0.95) * seconds)
            victim = kill_something(place, run, draw)
            assert run.stdout is not None
            said = run.stdout.read()
        context = f"seed {SEED}, kill {number} of {name}: {victim}\n{said}"
        assert "Traceback" not in said, context
        before = place.journals()
        ended = finished(place, [*command.words, *command.again])
        after = place.journals()
        for path, records in before.items():
            assert after[path][: len(records)] == records, context
        told = verdicts(place)
        measured = {key: times for key, times in told.items() if key[-1] != "not_measured"}
        assert all(measured[key] == 1 for key in searched(measured)), context
        if command.repeats:
            assert ended == code or {ended, code} <= {0, 3}, context
            assert searched(measured) == searched(expected), context
            assert len(measured) > len(searched(measured)) or len(expected) == len(searched(expected)), context
        assert bool(measured) == bool(expected), context
        if name == "plan":
            assert saved_plan(place.folder / "plan").steps, context
        place.require_clean()
