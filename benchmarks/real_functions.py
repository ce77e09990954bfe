"""Functions of public packages, as they stand there: which of them kernelwright judges, and why not the others.

    python benchmarks/real_functions.py --folder DIR [--cpu] [--only TEXT] [--package NAME] [--json FILE] [--again]
    python benchmarks/real_functions.py --folder DIR --spaces [--only TEXT] [--package NAME]
    python benchmarks/real_functions.py --listing

The list is real_functions/functions.yaml; references and inputs stand beside it. Packages are installed from PyPI into
--folder, with pinned versions and without what they depend on. Each function is called as its users call it, against
the reference, without kernelwright; then `kernelwright evaluate` judges it. A function counts as judged where it is
found correct, or wrong as its own call shows it, too. With --json, functions in the file are not run again.
With --spaces nothing is judged: it counts the functions for which there is something to search (90 % are asked).

Exit codes: 0 enough functions are judged (90 %, with --cpu in Triton's interpreter 80 %), 1 not, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from command import run_benchmark
from kernelwright.core.syntax_tree import syntax_tree
from real_function_record import counts, summary, table, write

FOLDER = Path(__file__).parent / "real_functions"
CALL = Path(__file__).parent / "real_function_call.py"
ASKED = {"cpu": 0.8, "cuda": 0.9}
"""The share of functions that is to be judged."""
INTERPRETER = {"TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""}
"""What a user sets who has no GPU; vLLM accepts Triton without one where no device is visible."""
SEARCHED = 0.9
"""The share of functions that is to have parameters."""
_PARAMETERS = """
import json, sys
from kernelwright.core.space_inference import parameter_values
from kernelwright.corpus.functions.translation import translate
kernel = translate(*sys.argv[1:]).kernel
values = {name: len(found) for name, found in parameter_values(kernel).items()}
print(json.dumps({"parameters": values, "start": {name: kernel.config[name] for name in values}}))
"""


@dataclass(frozen=True)
class Entry:
    """A function, and what its user writes for it."""

    kind: str
    package: str
    function: str
    reference: str
    inputs: str
    small: dict[str, int]
    without_gpu: str = ""
    """Why it cannot run on a CPU, if it cannot."""

    @property
    def name(self) -> str:
        return f"{self.package} {self.function.rpartition('/')[2]}"

    @property
    def file(self) -> Path:
        return FOLDER / f"bench_{self.kind}.py"

    @property
    def lines(self) -> int:
        """How many lines a user writes: the definitions of reference and inputs, and what these use of their file."""
        definitions = {
            name: node for node in syntax_tree(self.file.read_text()).body for name in _defined(node) if name != "HALF"
        }
        needed, open_ = set[str](), [self.reference, self.inputs]
        while open_:
            name = open_.pop()
            if name in definitions and name not in needed:
                needed.add(name)
                open_ += [item.id for item in ast.walk(definitions[name]) if isinstance(item, ast.Name)]
        return sum((definitions[name].end_lineno or 0) - definitions[name].lineno + 1 for name in needed)


def _defined(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef):
        return [node.name]
    return (
        [target.id for target in node.targets if isinstance(target, ast.Name)] if isinstance(node, ast.Assign) else []
    )


def entries_and_packages() -> tuple[list[Entry], dict[str, dict[str, Any]]]:
    kinds: dict[str, Any] = yaml.safe_load((FOLDER / "functions.yaml").read_text())
    packages, reasons = kinds.pop("packages"), {"": "", **kinds.pop("without_gpu")}
    rows = [
        {
            "inputs": f"{row['reference']}_inputs",
            **row,
            "kind": kind,
            "without_gpu": reasons[row.get("without_gpu", "")],
        }
        for kind, rows in kinds.items()
        for row in rows
    ]
    return [Entry(**row) for row in rows], packages


def installed(name: str, package: dict[str, Any], folder: Path) -> Path:
    """Return where a package and the few others that it is imported with are installed."""
    target = folder / name
    wanted = [f"{name}=={package['version']}", *package.get("with", [])]
    done = target / "installed.txt"
    if not done.exists() or done.read_text().split() != wanted:
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--upgrade", "--target", str(target)]
        subprocess.run([*command, *wanted], check=True)
        done.write_text("\n".join(wanted))
    return target


class Machine:
    """Where functions run: the folder of packages, the device, the time limit."""

    def __init__(self, folder: Path, device: str, timeout_s: float) -> None:
        self.folder = folder
        self.device = device
        self.timeout_s = timeout_s

    def environment(self, entry: Entry) -> dict[str, str]:
        paths = [str(self.folder / entry.package), *filter(None, [os.environ.get("PYTHONPATH")])]
        return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), **(INTERPRETER if self.device == "cpu" else {})}

    def own_calls(self, entries: Sequence[Entry]) -> list[dict[str, Any]]:
        """Call the functions of one package without kernelwright."""
        calls = [
            {"name": item.name, "function": item.function, "file": str(item.file), "reference": item.reference}
            | {"inputs": item.inputs, "sizes": item.small if self.device == "cpu" else {}}
            | {"device": self.device, "timeout_s": self.timeout_s}
            for item in entries
        ]
        answers = self.answers(calls, entries[0])
        failed = [call for call, answer in zip(calls, answers, strict=True) if answer["state"] == "fails"]
        if failed and self.device == "cpu":
            by_name = {answer["name"]: answer for answer in answers}
            for call, again in zip(failed, self.answers(failed, entries[0], "--lift-limits"), strict=True):
                by_name[call["name"]]["with_limits_lifted"] = {
                    "state": again["state"],
                    "message": again.get("message", ""),
                }
        return answers

    def answers(self, calls: Sequence[dict[str, Any]], entry: Entry, *options: str) -> list[dict[str, Any]]:
        ran = subprocess.run(
            [sys.executable, str(CALL), *options],
            input=json.dumps(calls),
            env=self.environment(entry),
            cwd=self.folder,  # some packages write files there when they are imported
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        found = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith('{"name"')]
        missing = {"state": "crashes", "message": f"exit status {ran.returncode}"}
        return found + [{"name": call["name"], **missing} for call in calls[len(found) :]]

    def parameters(self, entry: Entry) -> dict[str, Any]:
        """Return how many values each parameter of a function has; a reason instead where it is not read."""
        path, _, name = entry.function.partition("::")
        names = [f"{self.folder / entry.package / path}::{name}"]
        names += [f"{entry.file}::{entry.reference}", f"{entry.file}::{entry.inputs}"]
        command = [sys.executable, "-c", _PARAMETERS, *names]
        try:
            ran = subprocess.run(
                command,
                env=self.environment(entry),
                cwd=self.folder,
                capture_output=True,
                text=True,
                timeout=self.timeout_s,
            )
        except subprocess.TimeoutExpired:
            return {"parameters": {}, "reason": f"more than {self.timeout_s:.0f} s"}
        if ran.returncode != 0:
            return {"parameters": {}, "reason": ran.stderr.strip().splitlines()[-1][-700:]}
        found: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
        return found

    def judged(self, entry: Entry) -> dict[str, Any]:
        """Run `kernelwright evaluate` on a function, as its user does."""
        path, _, name = entry.function.partition("::")
        command = [sys.executable, "-m", "kernelwright", "evaluate", "--json", "--quick", "--device", self.device]
        command += ["--kernel", f"{self.folder / entry.package / path}::{name}"]
        command += ["--reference", f"{entry.file}::{entry.reference}", "--inputs", f"{entry.file}::{entry.inputs}"]
        if self.device == "cpu":
            command += ["--workload", ",".join(f"{size}={value}" for size, value in entry.small.items())]
        started = time.perf_counter()
        environment = {key: value for key, value in self.environment(entry).items() if key != "TRITON_INTERPRET"}
        try:
            ran = subprocess.run(
                command, env=environment, cwd=self.folder, capture_output=True, text=True, timeout=self.timeout_s
            )
        except subprocess.TimeoutExpired:
            return {"outcome": "too slow", "reason": f"more than {self.timeout_s:.0f} s"}
        answer = {"seconds": round(time.perf_counter() - started, 1), "exit_code": ran.returncode}
        return answer | outcome(ran)


def outcome(ran: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """Say what an `evaluate` found: correct, a status such as wrong_value, or that it was refused and why."""
    if "Traceback (most recent call last)" in ran.stderr:
        return {"outcome": "traceback", "reason": ran.stderr.strip().splitlines()[-1][-700:]}
    if ran.returncode == 2 or not ran.stdout.strip():
        lines = ran.stderr.strip().splitlines() or [""]
        return {"outcome": "refused", "reason": " ".join(line.strip() for line in lines[-12:])[-700:]}
    found = json.loads(ran.stdout)
    evaluation = found.get("evaluation") or found
    status = str(evaluation.get("status"))
    if status == "ok":
        times = {name: evaluation.get(name) for name in ("latency_ms", "reference_ms", "interval")}
        return {"outcome": "correct", **{name: value for name, value in times.items() if value is not None}}
    return {
        "outcome": status,
        "reason": " ".join(str(evaluation.get("log") or evaluation.get("message") or "").split())[:700],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="where packages are installed")
    parser.add_argument("--cpu", action="store_true", help="small inputs, in Triton's interpreter")
    parser.add_argument("--only", default="", help="functions with this in their kind or name")
    parser.add_argument("--package", default="", help="functions of this package")
    parser.add_argument("--timeout", type=float, default=300, help="seconds for a function, each time it is called")
    parser.add_argument("--json", type=Path, help="write results to this file too, after each function")
    parser.add_argument("--again", action="store_true", help="run those, too, whose results are in the file")
    parser.add_argument("--spaces", action="store_true", help="count the functions that have parameters to search")
    parser.add_argument("--listing", action="store_true", help="print the list, run nothing")
    options = parser.parse_args()
    entries, packages = entries_and_packages()
    entries = [
        item for item in entries if options.only in f"{item.kind} {item.name}" and options.package in ("", item.package)
    ]
    if options.listing:
        print("\n".join(f"{item.kind:14} {item.package:24} {item.lines:>3} lines  {item.function}" for item in entries))
        return 0
    if options.folder is None or not entries:
        parser.error("--folder is needed" if entries else "no such function")
    if options.spaces:
        return spaces(entries, packages, Machine(options.folder.absolute(), "cpu", options.timeout))
    known = json.loads(options.json.read_text())["rows"] if options.json and options.json.exists() else []
    kept = {row["name"]: row for row in known}
    device = "cpu" if options.cpu else "cuda"
    machine = Machine(options.folder.absolute(), device, options.timeout)
    for package in dict.fromkeys(item.package for item in entries):
        open_ = [item for item in entries if item.package == package and (options.again or item.name not in kept)]
        if not open_:
            continue
        installed(package, packages[package], machine.folder)
        for entry, own in zip(open_, machine.own_calls(open_), strict=True):
            own.pop("name", None)
            row = {"name": entry.name, "kind": entry.kind, "package": package, "version": packages[package]["version"]}
            row |= {"function": entry.function, "lines": entry.lines, "own": own, **machine.judged(entry)}
            if device == "cpu" and entry.without_gpu and not counts(row):
                row["without_gpu"] = entry.without_gpu
            kept[entry.name] = row
            print(table([row]), flush=True)
            if options.json:
                write(options.json, device, list(kept.values()))
    rows = [kept[item.name] for item in entries if item.name in kept]
    print(json.dumps(summary(rows), indent=2))
    return 0 if sum(map(counts, rows)) >= ASKED[device] * len(rows) else 1


def spaces(entries: Sequence[Entry], packages: dict[str, dict[str, Any]], machine: Machine) -> int:
    """Print the parameters of each function; return 0 if enough functions have some."""
    searched = 0
    for entry in entries:
        installed(entry.package, packages[entry.package], machine.folder)
        found = machine.parameters(entry)
        searched += bool(found["parameters"])
        said = ", ".join(f"{name} ({count})" for name, count in found["parameters"].items())
        print(f"{entry.name:72} {said or found.get('reason', 'nothing to search')}", flush=True)
    print(json.dumps({"functions": len(entries), "with_parameters": searched}))
    return 0 if searched >= SEARCHED * len(entries) else 1


if __name__ == "__main__":
    run_benchmark(main)
