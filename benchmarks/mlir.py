"""Measures what scheduling a matrix product gains over IREE's own choice, with BLAS beside it.

    python benchmarks/mlir.py [--sizes 128,512,1024,1x4096x4096] [--dtype f32] [--device cpu|cuda] [--trials 64]
                              [--tuner portfolio] [--json FILE]

A size is MxNxK, or one number for all three. Best and default are those of the finals of `tune mlir`: checked with new
inputs and timed interleaved. On a CPU NumPy's product is timed in a process of its own with the same priority, on a
GPU torch's where torch is there.

For a machine that has only IREE's runtime, modules are compiled elsewhere: the likeliest configs and others that
differ, as many as there are trials.

    python benchmarks/mlir.py --device cuda --dtype f16 --sizes 512,1024,2048,4096 --compile-only DIR
    python benchmarks/mlir.py --compiled DIR --json FILE    # on the machine with the GPU
"""

from __future__ import annotations

import argparse
import json
import math
import pickle
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from command import run_benchmark
from kernelwright.core import Config, Evaluation
from kernelwright.evaluators.iree.compiler import IreeCompiler
from kernelwright.evaluators.iree.evaluator import IreeEvaluator
from kernelwright.evaluators.iree.target import COMPILER, IreeTarget, installed, repeats_on_gpu
from kernelwright.evaluators.timing.priority import raised
from kernelwright.evaluators.workers.device_lock import DeviceLock
from kernelwright.runtime.devices import device_label
from kernelwright.tuners.start import diverse

PRODUCT = """func.func @matmul(%a: tensor<{m}x{k}x{t}>, %b: tensor<{k}x{n}x{t}>) -> tensor<{m}x{n}x{r}> {{
  %zero = arith.constant 0.0 : {r}
  %empty = tensor.empty() : tensor<{m}x{n}x{r}>
  %start = linalg.fill ins(%zero : {r}) outs(%empty : tensor<{m}x{n}x{r}>) -> tensor<{m}x{n}x{r}>
  %sum = linalg.matmul ins(%a, %b : tensor<{m}x{k}x{t}>, tensor<{k}x{n}x{t}>)
                       outs(%start : tensor<{m}x{n}x{r}>) -> tensor<{m}x{n}x{r}>
  return %sum : tensor<{m}x{n}x{r}>
}}
"""
NUMPY = """
import sys, time
import numpy as np
m, n, k = map(int, sys.argv[1:])
a, b = (np.random.default_rng(0).uniform(-1, 1, shape).astype(np.float32) for shape in ((m, k), (k, n)))
a @ b
taken, end = [], time.perf_counter() + 2
while len(taken) < 20 or (time.perf_counter() < end and len(taken) < 6000):
    start = time.perf_counter(); a @ b; taken.append(time.perf_counter() - start)
taken.sort()
print(1e3 * taken[len(taken) // 4])
"""
"""The median of the faster half: others only ever add time."""


def parse_size(text: str) -> tuple[int, int, int]:
    parts = [int(part) for part in text.split("x")]
    m, n, k = parts * 3 if len(parts) == 1 else parts
    return m, n, k


def source_of(size: Sequence[int], dtype: str) -> str:
    m, n, k = size
    return PRODUCT.format(m=m, n=n, k=k, t=dtype, r=dtype)


def name_of(size: Sequence[int], dtype: str) -> str:
    return f"matmul_{'x'.join(map(str, size))}_{dtype}"


def numpy_ms(size: Sequence[int]) -> float:
    command = [sys.executable, "-c", NUMPY, *map(str, size)]
    with (
        DeviceLock("cpu").held(),
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process,
        raised((process.pid,)),
    ):
        return float(process.communicate()[0])


CALLS = 20


def cublas_ms(size: Sequence[int], dtype: str) -> float | None:
    try:
        import torch
    except ImportError:
        return None
    m, n, k = size
    kind = torch.float16 if dtype == "f16" else torch.float32
    torch.backends.cuda.matmul.allow_tf32 = False
    a, b = torch.rand(m, k, device="cuda", dtype=kind), torch.rand(k, n, device="cuda", dtype=kind)
    taken = []
    for _ in range(20):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(CALLS):
            a @ b
        end.record()
        torch.cuda.synchronize()
        taken.append(start.elapsed_time(end) / CALLS)
    return float(np.median(taken))


def row_of(size: Sequence[int], dtype: str, device: str, finals: Sequence[Evaluation]) -> dict[str, Any]:
    best = min(
        (finalist for finalist in finals if finalist.config and finalist.latency_ms),
        key=lambda evaluation: evaluation.latency_ms or 0.0,
    )
    flops = 2 * math.prod(size)
    assert best.latency_ms and best.reference and best.speedup
    blas = numpy_ms(size) if device == "cpu" and dtype == "f32" else None
    blas = cublas_ms(size, dtype) if device != "cpu" else blas
    return {
        "size": "x".join(map(str, size)), "dtype": dtype, "config": best.config, "best_ms": best.latency_ms,
        "default_ms": best.reference.median_ms, "speedup": best.speedup.ratio,
        "interval": [best.speedup.low, best.speedup.high], "best_gflops": flops / best.latency_ms / 1e6,
        "default_gflops": flops / best.reference.median_ms / 1e6, "contention": best.contention,
        "blas_ms": blas, "blas_gflops": flops / blas / 1e6 if blas else None,
        "error_fp64": best.correctness.error_fp64 if best.correctness else None, "environment": best.environment,
    }  # fmt: skip


def tuned(size: Sequence[int], asked: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """One size by `tune mlir`."""
    from kernelwright import tune_mlir

    file = folder / f"{name_of(size, asked.dtype)}.mlir"
    file.write_text(source_of(size, asked.dtype))
    began = time.monotonic()
    result = tune_mlir(
        file, device=asked.device, trials=asked.trials, tuner=asked.tuner, seed=asked.seed, results=folder
    )
    statuses = Counter(evaluation.status.value for found in result.found for evaluation in found.evaluations)
    return row_of(size, asked.dtype, asked.device, result.finals) | {
        "trials": result.trials, "statuses": statuses, "seconds": round(time.monotonic() - began, 1),
        "space": result.scheduling.size,
    }  # fmt: skip


def compile_only(sizes: Sequence[Sequence[int]], asked: argparse.Namespace, folder: Path) -> None:
    """Compile what would be tried, for a machine without a compiler."""
    from kernelwright.commands.tune.mlir import Options, plan, processes_of, schedule_module
    from kernelwright.core.events import ignore
    from kernelwright.runtime.runtime import Runtime

    target = IreeTarget(asked.device, asked.chip or "")
    for size in sizes:
        file = folder / f"{name_of(size, asked.dtype)}.mlir"
        file.write_text(source_of(size, asked.dtype))
        planned = plan(Options(file, device=asked.device, trials=asked.trials, dry_run=True), Runtime(ignore))
        processes = processes_of(planned)
        found = schedule_module(planned, processes)
        space, first = found.schedules[0].space, found.schedules[0].first
        others = [space.encoded.config(row) for row in diverse(space, asked.trials, np.random.default_rng(asked.seed))]
        configs = list(dict.fromkeys([*first, *others]))[: asked.trials]
        repeats = 1 if asked.device == "cpu" else repeats_on_gpu(found.problem)
        compiler = IreeCompiler(replace(target, repeats=repeats), processes, folder / "modules", asked.compilers)
        sources = [found.kernel.source, *(found.kernel.bind(config).source for config in configs)]
        outcomes = Counter(item.result().status.value for item in [compiler.submit(source) for source in sources])
        file.with_suffix(".pickle").write_bytes(pickle.dumps((size, asked.dtype, found.problem, found.kernel, configs)))
        compiler.close()
        processes.close()
        print(f"{file.stem}: {dict(outcomes)}", flush=True)
    build = {"release": installed(COMPILER), "device": asked.device, "chip": target.named_chip}
    (folder / "compiled.json").write_text(json.dumps(build) + "\n")


def measured(path: Path, build: dict[str, str], folder: Path, finalists: int = 5) -> dict[str, Any]:
    """One size of modules that were compiled elsewhere."""
    size, dtype, problem, kernel, configs = pickle.loads(path.read_bytes())
    began, device = time.monotonic(), build["device"]
    with IreeEvaluator(
        device, build["chip"], memory=folder / "modules", label=device_label(device), release=build["release"]
    ) as evaluator:
        found = list(evaluator.evaluate(problem, kernel, configs))
        timed = sorted((item for item in found if item.latency_ms), key=lambda evaluation: evaluation.latency_ms or 0.0)
        finals = evaluator.compare(problem, kernel, [Config(), *(Config(item.config) for item in timed[:finalists])])
    statuses = Counter(item.status.value for item in found)
    row = row_of(size, dtype, device, finals)
    return row | {"trials": len(found), "statuses": statuses, "seconds": round(time.monotonic() - began, 1)}


def show(row: dict[str, Any]) -> None:
    blas = f", BLAS {row['blas_ms']:.4f} ms ({row['blas_gflops']:.1f})" if row["blas_ms"] else ""
    print(
        f"{row['size']} {row['dtype']}: {row['best_ms']:.4f} ms ({row['best_gflops']:.1f} GFLOP/s), IREE's default "
        f"{row['default_ms']:.4f} ms ({row['default_gflops']:.1f}){blas}: {row['speedup']:.3f}x "
        f"[{row['interval'][0]:.3f}, {row['interval'][1]:.3f}], {row['seconds']} s",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="128,512,1024,1x4096x4096")
    parser.add_argument("--dtype", default="f32", choices=("f32", "f16", "f64"))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--chip")
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--tuner", default="portfolio")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--compilers", type=int, default=2)
    parser.add_argument("--compile-only", type=Path, metavar="DIR")
    parser.add_argument("--compiled", type=Path, metavar="DIR")
    parser.add_argument("--json", type=Path, metavar="FILE")
    asked = parser.parse_args()
    sizes = [parse_size(text) for text in asked.sizes.split(",")]
    if asked.compile_only is not None:
        asked.compile_only.mkdir(parents=True, exist_ok=True)
        compile_only(sizes, asked, asked.compile_only)
        return
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        build = json.loads((asked.compiled / "compiled.json").read_text()) if asked.compiled else {}
        jobs: list[Any] = sorted(asked.compiled.glob("*.pickle")) if asked.compiled else sizes
        for job in jobs:
            row = measured(job, build, asked.compiled) if asked.compiled else tuned(job, asked, Path(folder))
            rows.append(row)
            show(row)
    mean = math.exp(sum(math.log(row["speedup"]) for row in rows) / len(rows))
    print(f"geometric mean: {mean:.3f}x IREE's default")
    if asked.json is not None:
        environment = next(row["environment"] for row in rows)
        for row in rows:
            del row["environment"]
        asked.json.write_text(json.dumps({"environment": environment, "geomean": mean, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    run_benchmark(main)
