"""The commands that are killed, each in a user's folder of its own, and what such a folder holds afterwards."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from kernelwright.core import Journal

from ..agent.conversations.telling import analysis, fenced
from ..cli.commands import SCALE
from ..cli.tuning import workplace
from ..conftest import SCALE_KERNEL
from ..surroundings import KERNELWRIGHT, WARM_SERVER
from .command_output import output

PRODUCT = """func.func @f(%l: tensor<8x16xf32>, %r: tensor<16x8xf32>, %o: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = linalg.matmul ins(%l, %r : tensor<8x16xf32>, tensor<16x8xf32>) outs(%o : tensor<8x8xf32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
"""
PLAIN = ("--device", "cpu", "--sandbox", "none")
BLOCKS = ("--param", "BLOCK=0,4,8", "--tuner", "grid", "--no-save")
SIZES = ("-m", "16", "-m", "17", "-n", "32", "-k", "32")
ATTENTION = ("--seq-len-q", "200", "--num-heads", "2", "--simulate", "--trials", "30")
OPTIMIZE = ("optimize", "--kernel", "1_999.py", *SCALE, "--max-iterations", "1", "--no-archive")
FEW = ("--max-evaluations", "2")
A_PERSON = ("--model", "files:chat")


class Command(NamedTuple):
    """A command for a user's folder."""

    words: tuple[str, ...]
    leaves: str
    """A pattern of the files that it leaves."""
    again: tuple[str, ...] = ("--resume",)
    """What the second call has beside them: a command without a journal begins anew."""
    repeats: bool = True
    """Whether all runs find the same, up to timing."""
    trials: int | None = None
    """How many trials all runs have, where a tuner draws them."""
    weight: int = 1
    needs: str = ""
    """A package."""
    first: tuple[str, ...] = ()
    """A command whose results it needs."""


COMMANDS = {
    "tune kernel": Command(
        ("tune", "kernel", "1_999.py", *SCALE, *BLOCKS), "results/tuning/**/journal.jsonl", weight=3
    ),
    "optimize": Command(OPTIMIZE, "results/multiturn_logs/*.jsonl", repeats=False, weight=3),
    "optimize, a person": Command(
        (*OPTIMIZE, *A_PERSON, "--target-speedup", "1e9"), "results/multiturn_logs/*.jsonl", repeats=False, weight=2
    ),
    "batch": Command(
        ("batch", "1_999.py", *PLAIN, "--dataset", ".", "--max-iterations", "1", "--no-archive"),
        "results/multiturn_logs/*.jsonl",
        repeats=False,
    ),
    "tune gemm": Command(("tune", "gemm", *SIZES, *PLAIN, "--output", "configs"), "configs/*.json", needs="triton"),
    "tune mlir": Command(
        ("tune", "mlir", "product.mlir", "--tuner", "grid", "--trials", "3", "--sandbox", "none"),
        "results/**/journal.jsonl",
        weight=3,
        needs="iree",
    ),
    "tune attention": Command(
        ("tune", "attention", *ATTENTION), "results/attention_tuning/*/final_*.json", repeats=False, trials=30, weight=3
    ),
    "list-slow": Command(
        ("list-slow", "--folder", ".", "--dataset", ".", *PLAIN, "--threshold", "1e9"), "cache/speedups.jsonl", weight=2
    ),
    "agent compile": Command(
        ("agent", "compile", "results", "--device", "cpu", "--problem", "level1/999_Scale.py", *A_PERSON, *FEW),
        "chat/*.prompt.md",
        repeats=False,
        first=(*OPTIMIZE, "--model", "rules", "--target-speedup", "1e-9", "--no-save"),
    ),
    "evaluate": Command(("evaluate", "--kernel", "1_999.py", *SCALE), "", again=(), weight=3),
    "plan": Command(
        ("plan", "--kernel", "1_999.py", *SCALE, "--save-plan", "plan"), "plan/plan.json", again=(), weight=3
    ),
    "profile": Command(("profile", "--kernel", "1_999.py", *SCALE), "", again=(), weight=3),
    "check": Command(
        ("check", "1_999.py", *SCALE, "--baseline-file", "figures.json", "--record", "--junit", "check.xml"),
        "figures.json",
        again=(),
    ),
    "report": Command(
        ("report", "results"), "results/multiturn_logs/*.html", again=(), weight=3, first=(*OPTIMIZE, "--no-save")
    ),
    "tune replay": Command(
        (
            "tune",
            "replay",
            "recording.csv",
            "--seeds",
            "2",
            "--budget",
            "20",
            "--tuner",
            "random",
            "--tuner",
            "annealing",
        ),
        "",
        again=(),
        weight=3,
    ),
}
ENDS = (0, 1, 3)
"""Exit codes of commands that came to their end."""
ANALYSIS = analysis("memory", ["far from a copy"], ("larger blocks", "BLOCK", "it is cheaper", 1.5)).content
KERNEL = (
    "[[ ## strategy ## ]]\nlarger blocks\n\n[[ ## rationale ## ]]\nIt is cheaper.\n\n[[ ## kernel ## ]]\n"
    + fenced(SCALE_KERNEL.replace("BLOCK = 8", "BLOCK = 16"))
    + "\n"
)
INSTRUCTIONS = "[[ ## new_instructions ## ]]\nTake larger blocks.\n"


def answer(page: str) -> str:
    """What a person replies to a prompt."""
    if "You improve the instructions" in page:
        return INSTRUCTIONS
    return KERNEL if "# How to answer" in page else str(ANALYSIS)


class Person(threading.Thread):
    """Answers the prompts of a folder until it leaves."""

    def __init__(self, chat: Path) -> None:
        super().__init__(daemon=True)
        self._chat = chat
        self._left = threading.Event()

    def run(self) -> None:
        while not self._left.wait(0.05):
            for prompt in self._chat.glob("*.prompt.md"):
                reply = prompt.with_name(re.sub(r"prompt\.md$", "reply.md", prompt.name))
                if not reply.exists():
                    part = reply.with_suffix(".part")
                    part.write_text(answer(prompt.read_text()))
                    os.utime(part, (time.time() - 60, time.time() - 60))  # it is complete
                    part.rename(reply)

    def leave(self) -> None:
        self._left.set()
        self.join()


class Place:
    """A user's folder, and its own temporary folder, in which nothing may be left."""

    def __init__(self, folder: Path, like: Path | None = None, cache: Path | None = None) -> None:
        """`like` is a folder whose files it has too; the cache may be shared with others."""
        self.folder = workplace(folder / "work")
        if like is not None:
            shutil.copytree(like, self.folder, dirs_exist_ok=True)
        (self.folder / "product.mlir").write_text(PRODUCT)
        rows = [f"{a},{b},{(a - 7) ** 2 + b + 1}" for a in range(20) for b in range(10)]
        (self.folder / "recording.csv").write_text("\n".join(["A,B,time_ms", *rows, ""]))
        self.temporary = folder / "tmp"
        self.temporary.mkdir()
        known = {name: value for name, value in os.environ.items() if name != WARM_SERVER}
        own = {"TMPDIR": str(self.temporary), "KERNELWRIGHT_CACHE": str(cache or self.folder / "cache")}
        self._environment = {**known, **own, "PYTHONFAULTHANDLER": "1"}

    @contextlib.contextmanager
    def person(self) -> Iterator[None]:
        """Somebody who answers prompts."""
        person = Person(self.folder / "chat")
        person.start()
        yield
        person.leave()

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*KERNELWRIGHT, *words],
            cwd=self.folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def output(self, run: subprocess.Popen[str]) -> str:
        """What a command prints until nothing holds its output; the test fails where that does not end."""
        return output(run, self.processes)

    def finished(self, words: Iterable[str]) -> int:
        """Run a command to its end; return its exit code."""
        with self.start(*words) as run:
            said = self.output(run)
        assert run.returncode in ENDS, said
        assert "Traceback" not in said, said
        return run.returncode

    def journals(self) -> dict[Path, list[dict[str, Any]]]:
        found = {}
        for path in sorted(self.folder.rglob("*.jsonl")):
            whole = path.read_text().rpartition("\n")[0]  # a torn last line is none
            found[path] = [json.loads(line) for line in whole.splitlines()]
        return found

    def require_whole(self) -> None:
        """Each file of JSON is whole at any moment."""
        for path in self.folder.rglob("*.json"):
            json.loads(path.read_text())

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
        deadline = time.monotonic() + 20
        while self.processes() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert self.processes() == [], "no process is left"
        assert [path.name for path in self.temporary.glob("kernelwright-*")] == [], "no folder is left"
        assert list(self.folder.rglob("*.part")) == [], "no half of a file is left"
        for path in self.folder.rglob("journal*.jsonl"):
            Journal(path).close()  # no lock is left


def verdicts(place: Place) -> Counter[tuple[str, ...]]:
    """What was found of each kernel and config, once for each time that it was measured."""
    found: Counter[tuple[str, ...]] = Counter()
    for path, records in place.journals().items():
        journal = str(path.relative_to(place.folder))
        for record in records:
            if record.get("kind") == "trial":
                evaluation = record["evaluation"]
                config = json.dumps(evaluation["config"], sort_keys=True)
                found[journal, record["origin"], evaluation["kernel_digest"], config, evaluation["status"]] += 1
            elif record.get("kind") == "exchange":
                request = json.dumps([record["lane"], record["request"]], sort_keys=True)
                found[journal, "exchange", request, "", "ok"] += 1
            elif path.name == "speedups.jsonl":
                found[journal, "listed", json.dumps(record["key"], sort_keys=True), "", "ok"] += 1
    return found


def searched(found: Iterable[tuple[str, ...]]) -> set[tuple[str, ...]]:
    """Those of a search: which configs are finalists depends on what was timed."""
    return {key for key in found if not key[1].startswith("final")}
