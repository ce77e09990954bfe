"""The times of functions of public packages as they stand, beside those of the packages' own calls, on one GPU.

    python benchmarks/real_function_times.py --folder DIR [--shard K/N] [--json FILE] [--seconds S] [--timeout S]
                                             [--only TEXT] [--package NAME] [--report FILE ...]

For each function of real_functions/functions.yaml its own call is timed by events of the device, `kernelwright
evaluate --quick` judges and times it, and its own call is timed once more: `ratio` is the time that `evaluate` found
over the mean of the two, with an autotuner's first config in both. Packages must be in --folder; see real_functions.py
and real_function_archive.py. --shard 2/4 is the second of four parts, for a GPU each (CUDA_VISIBLE_DEVICES). A row is
printed when it is known, and written to --json; rows in that file are not measured again. After --seconds no function
is begun. --report sums up the files of all parts, and measures nothing.

Exit codes: 0 for 90 % of the functions that are correct the ratio is within 2 %, 1 not, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import queue
import re
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from command import run_benchmark
from real_function_record import environment, without_places
from real_functions import Entry, Machine, entries_and_packages

TIMER = Path(__file__).parent / "real_function_timer.py"
WITHIN = 0.02
ASKED = 0.9


class OwnCall:
    """A process that times a function's own call. It imports the package while another function is judged."""

    def __init__(self, entry: Entry, machine: Machine) -> None:
        call = {"function": entry.function, "file": str(entry.file), "inputs": entry.inputs}
        self._timeout_s = machine.timeout_s
        self._process = subprocess.Popen(
            [sys.executable, str(TIMER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=machine.environment(entry),
            cwd=machine.folder,
            text=True,
        )
        self._lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        self._say(json.dumps(call))
        self._first: dict[str, Any] | None = None

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(("{", "ready")):  # a library may print, too
                self._lines.put(line)
        self._lines.put("")

    def _say(self, line: str) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):  # the answer tells
            print(line, file=self._process.stdin, flush=True)

    def _answer(self) -> dict[str, Any]:
        try:
            line = self._lines.get(timeout=self._timeout_s)
        except queue.Empty:
            self._process.kill()
            return {"state": "takes too long"}
        if line == "ready\n":
            return {}
        return (
            dict(json.loads(line)) if line else {"state": "crashes", "message": f"exit status {self._process.wait()}"}
        )

    def measured(self) -> dict[str, Any]:
        """Return what the process measures now; a `state` and a `message` where it cannot."""
        if self._first is None:
            self._first = self._answer()
        if "state" in self._first:
            return self._first
        self._say("go")
        return self._answer()

    def ended(self) -> dict[str, Any]:
        """Let the process end; return what it says of the device then."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        found = self._answer() if self._first == {} else {}
        self._process.kill()
        self._process.wait()
        return found


def measured(entry: Entry, machine: Machine, own: OwnCall) -> dict[str, Any]:
    """Return a function's row."""
    before = own.measured()
    judged = machine.judged(entry)
    after = own.measured() if "ms" in before else before
    overhead = own.ended().get("overhead_ms", 0.0)
    row = {"name": entry.name, "kind": entry.kind, "package": entry.package, "own": [before, after], **judged}
    if "ms" in before and "ms" in after:
        row |= {"own_ms": (before["ms"] + after["ms"]) / 2 - overhead, "overhead_ms": overhead}
        row |= {"own_drift": after["ms"] / before["ms"] - 1}
        if "latency_ms" in judged:
            row["ratio"] = judged["latency_ms"] / row["own_ms"]
    return row


def line_of(row: dict[str, Any]) -> str:
    """Return a row as a line of text."""
    own = f"{row['own_ms']:9.4f} ms" if "own_ms" in row else row["own"][0].get("state", "")
    ours = f"{row['latency_ms']:9.4f} ms" if "latency_ms" in row else ""
    ratio = f"{row['ratio']:7.3f}" if "ratio" in row else ""
    why = row.get("reason", "") or row["own"][0].get("message", "") or ("waits" if row["own"][0].get("waits") else "")
    return f"{row['name']:72} {row['outcome']:14} own {own:12} ours {ours:12} {ratio} {why[:160]}"


def summary(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return what counts over all functions."""
    timed = [row for row in rows if "ratio" in row]
    near = [row for row in timed if abs(row["ratio"] - 1) <= WITHIN]
    ratios = sorted(row["ratio"] for row in timed)
    return {
        "functions": len(rows),
        "correct": sum(row["outcome"] == "correct" for row in rows),
        "timed": len(timed),
        "within_2_percent": len(near),
        "median_ratio": ratios[len(ratios) // 2] if ratios else None,
        "further_off": {row["name"]: round(row["ratio"], 3) for row in timed if row not in near},
    }


def within(rows: Sequence[dict[str, Any]]) -> int:
    """Return the exit code."""
    found = summary(rows)
    return 0 if found["timed"] and found["within_2_percent"] >= ASKED * found["timed"] else 1


def parse_shard(text: str) -> tuple[int, int]:
    """Return the number and the count of '2/4'."""
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise argparse.ArgumentTypeError(f"{text!r} is no part; write 2/4 for the second of four")
    return int(match[1]), int(match[2])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="where packages are installed")
    parser.add_argument("--shard", type=parse_shard, default=(1, 1), metavar="K/N")
    parser.add_argument("--only", default="", help="functions with this in their kind or name")
    parser.add_argument("--package", default="", help="functions of this package")
    parser.add_argument("--timeout", type=float, default=90, help="seconds for a function, each time it is called")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="after which no function is begun")
    parser.add_argument("--json", type=Path, help="write results to this file too, after each function")
    parser.add_argument("--report", type=Path, nargs="+", help="the files of all parts")
    options = parser.parse_args()
    if missing := [file for file in options.report or () if not file.is_file()]:
        parser.error(f"there is no file {missing[0]}")
    if options.report:
        rows = [row for file in options.report for row in json.loads(file.read_text())["rows"]]
        print(json.dumps(summary(rows), indent=1))
        return within(rows)
    if options.folder is None:
        parser.error("--folder is needed")
    entries = [
        item
        for item in entries_and_packages()[0]
        if options.only in f"{item.kind} {item.name}" and options.package in ("", item.package)
    ]
    number, count = options.shard
    entries = entries[number - 1 :: count]
    rows = json.loads(options.json.read_text())["rows"] if options.json and options.json.exists() else []
    entries = [item for item in entries if item.name not in {row["name"] for row in rows}]
    if not torch.cuda.is_available():
        parser.error("no GPU is found, and times are those of one")
    machine, here = Machine(options.folder.absolute(), "cuda", options.timeout), environment("cuda")
    ends = time.monotonic() + options.seconds
    ahead = OwnCall(entries[0], machine) if entries else None
    for place, entry in enumerate(entries):
        if time.monotonic() > ends:
            break
        assert ahead is not None
        own = ahead
        ahead = OwnCall(entries[place + 1], machine) if place + 1 < len(entries) else None
        rows.append(without_places(measured(entry, machine, own), entry.package))
        print(line_of(rows[-1]), flush=True)
        if options.json:
            record = {**summary(rows), "environment": here, "rows": rows}
            options.json.write_text(json.dumps(record, indent=1) + "\n")
    if ahead is not None:
        ahead.ended()
    print(json.dumps(summary(rows), indent=1))
    return within(rows)


if __name__ == "__main__":
    run_benchmark(main)
