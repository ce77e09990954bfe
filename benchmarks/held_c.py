"""Compares generated C as it is replayed, written anew and checked, with the same C as TileLang generated it.

    python benchmarks/held_c.py [--only 2_10] [--seconds 3] [--json FILE]

Prints for each launch of the shipped kernels for a CPU, at their workload `cpu`, how many of its accesses are checked
when it runs, how many instructions of the machine code that changes, and the ratio of the least times of calls that
are made in turn. Ratios are to be within 2 %.
"""

from __future__ import annotations

import argparse
import ctypes
import difflib
import json
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import kernelwright
import torch
from command import run_benchmark
from kernelwright.core.launch_plan import KernelCode, LaunchPlan, LaunchStep, TensorLayout, TorchStep
from kernelwright.corpus.kernels import list_kernels
from kernelwright.evaluators.languages.c_headers import HEADER, needed_headers
from kernelwright.evaluators.replay.c_arguments import CArguments
from kernelwright.evaluators.replay.c_source import ALWAYS, build, compile_c
from kernelwright.evaluators.replay.generated_c import PREFIX, held_source
from kernelwright.evaluators.replay.tir.cpu import generated_c
from kernelwright.evaluators.replay.values import dtype_of

REQUIRED = 0.02
Call = Callable[[], Any]


def launches(only: str) -> Iterator[tuple[str, LaunchPlan, LaunchStep]]:
    """Yield the launches of the shipped kernels, with names."""
    for stored in list_kernels("tilelang_cpu"):
        if only in stored.problem:
            plan = kernelwright.plan(stored.problem, device="cpu", workload="cpu", backend="tilelang_cpu").plan
            for launch in plan.launches():
                yield f"{stored.problem} {plan.codes[launch.code].name}", plan, launch


def as_generated(code: KernelCode, folder: Path) -> Path:
    """Compile generated C as it is, with the same flags but those that hold it."""
    body = HEADER.sub("", code.text)
    source = needed_headers(body) + body
    flags = [part for flag in code.flags for part in flag.split() if not part.startswith("-std")]
    return build(source, [*ALWAYS, *flags], folder, code.name)


def instructions(library: Path, name: str) -> list[str]:
    """Return the machine code of a function, without the addresses."""
    listed = subprocess.run(
        ["objdump", "-d", "--no-show-raw-insn", "--no-addresses", f"--disassemble={name}", str(library)],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    return [line.split("#")[0].replace(name, "").strip() for line in listed.splitlines() if line.startswith("\t")]


def tensors_of(plan: LaunchPlan, launch: LaunchStep) -> list[torch.Tensor]:
    """Return tensors of random numbers for a launch's arguments."""
    steps = [step for step in plan.steps if isinstance(step, TorchStep)]
    layouts: dict[int, TensorLayout] = dict(plan.layouts)
    layouts |= {number: result for step in steps for number, result in zip(step.results, step.layouts, strict=True)}
    found = [layouts[argument["tensor"]] for argument in launch.arguments]
    return [torch.rand(item.shape).to(dtype_of(item)) for item in found]


def compared(name: str, plan: LaunchPlan, launch: LaunchStep, folder: Path, seconds: float) -> dict[str, Any]:
    """Time a launch both ways, in turn."""
    codes = generated_c(plan.codes)
    code, given = codes[launch.code], CArguments(plan, codes).of(launch)
    assert given is not None
    libraries = as_generated(code, folder), compile_c(code, given, folder)
    names = code.entry, PREFIX + code.entry
    tensors = tensors_of(plan, launch)
    pointers = [ctypes.c_void_p(tensor.data_ptr()) for tensor in tensors]
    functions = [ctypes.CDLL(str(library))[own] for library, own in zip(libraries, names, strict=True)]
    calls: list[Call] = [partial(function, *pointers) for function in functions]
    source = held_source(code, given).rpartition('extern "C" {')[2]
    generated, held = least_seconds(calls, seconds)
    machine = [instructions(library, own) for library, own in zip(libraries, names, strict=True)]
    changes = [item for item in difflib.ndiff(*machine) if item[0] in "+-"]
    return {
        "launch": name,
        "checks": source.count("held_at(") + source.count("held_data_at("),
        "instructions": len(machine[0]),
        "changed": len(changes),
        "generated_ms": round(generated * 1e3, 4),
        "ratio": round(held / generated, 4),
    }


def least_seconds(calls: Sequence[Call], seconds: float) -> list[float]:
    """Return the least processor time of each call, which are made in turn: other processes only add to it."""
    best, end = [float("inf")] * len(calls), time.perf_counter() + seconds
    while time.perf_counter() < end:
        for number, call in enumerate(calls):
            start = time.thread_time()
            call()
            best[number] = min(best[number], time.thread_time() - start)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="")
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for name, plan, launch in launches(arguments.only):
            rows.append(compared(name, plan, launch, Path(folder), arguments.seconds))
            print(json.dumps(rows[-1]), flush=True)
    far = ", ".join(f"{row['launch']} {row['ratio']}" for row in rows if abs(row["ratio"] - 1) > REQUIRED)
    same = sum(not row["changed"] for row in rows)
    print(f"{same} of {len(rows)} launches are the same machine code; beyond 2 %: {far or 'none'}")
    if arguments.json:
        arguments.json.write_text(json.dumps({"rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    run_benchmark(main)
