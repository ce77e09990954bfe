"""What a package whose import takes long adds to the time from a command to its measurement.

    python benchmarks/import_time.py [--seconds 8] [--rounds 3] [--sandbox auto] [--json FILE]

The same function stands in a package that is imported at once, and in another whose import sleeps. `kernelwright
evaluate --quick` measures both by turns, so that other load meets both. Exit codes: 0 the medians differ by at most the
import and two seconds, 1 by more.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from command import run_benchmark

SLACK_S = 2.0
OPS = """
import functools

import tilelang
import tilelang.cpu.language as T
import torch


@functools.cache
def build(M, N, K):
    @T.prim_func
    def kernel(X: T.Tensor((M, K), "float32"), W: T.Tensor((K, N), "float32"), Y: T.Tensor((M, N), "float32")):
        with T.Kernel(M) as i:
            total = T.alloc_local((N,), "float32")
            for j in T.serial(N):
                total[j] = 0.0
            for k in T.serial(K):
                for j in T.serial(N):
                    total[j] += X[i, k] * W[k, j]
            for j in T.serial(N):
                Y[i, j] = total[j]

    return tilelang.compile(kernel, out_idx=[-1], target="c", compile_flags=["-O3"])


def product(x, weight):
    return build(x.shape[0], weight.shape[1], x.shape[1])(x, weight)


def product_torch(x, weight):
    return x @ weight


def inputs(seed):
    return [torch.randn(256, 512), torch.randn(512, 64)]
"""


def measured(package: Path, sandbox: str) -> float:
    """Return the seconds of a command; it must find the function correct."""
    file = package / "ops.py"
    command = [sys.executable, "-m", "kernelwright", "evaluate", "--kernel", f"{file}::product", "--quick", "--json"]
    command += ["--reference", f"{file}::product_torch", "--inputs", f"{file}::inputs", "--device", "cpu"]
    start = time.perf_counter()
    ran = subprocess.run([*command, "--sandbox", sandbox], capture_output=True, text=True)
    spent = time.perf_counter() - start
    if ran.returncode:
        raise SystemExit(f"{package.name} is not correct: {ran.stdout or ran.stderr}")
    return spent


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sandbox", default="auto")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    seconds: dict[str, list[float]] = {"at_once": [], "late": []}
    with tempfile.TemporaryDirectory() as folder:
        for name, slept in (("at_once", 0.0), ("late", arguments.seconds)):
            (package := Path(folder, name)).mkdir()
            (package / "__init__.py").write_text(f"import time\n\nimport torch\n\ntime.sleep({slept})\n")
            (package / "ops.py").write_text(OPS)
        for number in range(arguments.rounds):
            for name, found in seconds.items():
                found.append(measured(Path(folder, name), arguments.sandbox))
            print(f"round {number + 1}: {seconds['at_once'][-1]:.1f} s, {seconds['late'][-1]:.1f} s", flush=True)
    added = statistics.median(seconds["late"]) - statistics.median(seconds["at_once"])
    print(f"an import of {arguments.seconds:g} s adds {added:.1f} s")
    if arguments.json:
        result: dict[str, Any] = {"import_s": arguments.seconds, "added_s": round(added, 1)}
        result |= {f"{name}_s": [round(item, 1) for item in found] for name, found in seconds.items()}
        result |= {"sandbox": arguments.sandbox, "load_average": round(os.getloadavg()[0], 1)}
        arguments.json.write_text(json.dumps(result, indent=1) + "\n")
    return int(added > arguments.seconds + SLACK_S)


if __name__ == "__main__":
    run_benchmark(main)
