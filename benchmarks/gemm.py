"""Tunes the shapes of docs/gemm.md and compares: with cuBLAS, with the analytic choice, with vLLM's default config.

    python benchmarks/gemm.py fp16 [--device cuda] [--trials 60] [--json FILE]
    python benchmarks/gemm.py a8w8 [--device cuda:0,cuda:1] [--trials 40] [--backend tilelang] [--least-m 1024]
        [--json FILE]
    python benchmarks/gemm.py exhaustive [--device cuda] [--json FILE]

`fp16` tunes 20 products; `a8w8` forty with block scales (five weights, eight M each, the guide's job), then times
every choice, in Triton interleaved with vLLM's default config, and bf16 cuBLAS right after it; `exhaustive` measures
the whole plain space at two of those shapes and says what the search's choice has there. Every shape is on disk when it
is done: the same command goes on from there, so a part may be run in pieces. Times are medians; ratios above 1 mean
that the tuned config is faster.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from command import run_benchmark
from environment import tuners_environment
from kernelwright.commands.tune import gemm
from kernelwright.commands.tune._gemm_result import describe, geomean
from kernelwright.core import Config
from kernelwright.core.events import Event, Note, PartDone, Warned
from kernelwright.runtime.options.groups import Backend
from kernelwright.runtime.result import duration
from kernelwright.runtime.runtime import Runtime
from kernelwright.tuners.gemm.analytic import space_for
from kernelwright.tuners.gemm.result import ShapeResult
from kernelwright.tuners.gemm.shapes import Shape
from kernelwright.tuners.gemm.stores import store_of
from kernelwright.tuners.gemm.stores.store import ConfigKey
from kernelwright.tuners.gemm.stores.vllm import DEFAULT

FP16 = [[[16, 64, 256, 1024, 4096], n, k] for n, k in [(1024, 1024), (4096, 1024), (4096, 4096), (7168, 2048)]]
WEIGHTS = [(1024, 1024), (4096, 1024), (7168, 2048), (4096, 7168), (1536, 7168)]
"""The two of aiter's guide, and three of DeepSeek-V3's."""
A8W8 = [[[16, 32, 64, 128, 256, 512, 2048, 4096], n, k] for n, k in WEIGHTS]
EXHAUSTIVE = [[[64], 4096, 1024], [[2048], 4096, 1024]]


def print_line(event: Event) -> None:
    """Print a line per shape."""
    match event:
        case Note():
            print(event.text, flush=True)
        case Warned():
            print(f"warning: {event.text}", flush=True)
        case PartDone(result=ShapeResult() as result):
            print(f"[{event.number}/{event.total}] {result.shape}: {describe(result)}, {result.seconds:.0f} s; "
                  f"about {duration(event.left_s or 0.0)} left", flush=True)  # fmt: skip


def folder_of(arguments: argparse.Namespace) -> Path:
    """Where a part's files are."""
    other = "" if arguments.backend == Backend.TRITON else f"_{arguments.backend}"
    folder: Path = arguments.work / f"{arguments.part}{other}"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def options_of(arguments: argparse.Namespace, product: str, table: list[Any], **more: Any) -> gemm.Options:
    """The options of a sweep; its files stay in the working folder, so that it can go on."""
    folder = folder_of(arguments)
    (folder / "sizes.json").write_text(json.dumps(table))
    given: dict[str, Any] = {
        **{"sizes": folder / "sizes.json", "results": folder, "output": folder / "configs", "resume": True},
        **{"device": arguments.device, "graph": arguments.graph, "trials": arguments.trials, "benchmark": True},
        **{"backend": arguments.backend},
    }
    return gemm.Options(product, **{**given, **more})


def sweep(options: gemm.Options) -> tuple[gemm.Result, float]:
    """The result and the seconds of this call."""
    began = time.perf_counter()
    with Runtime(print_line) as runtime:
        result = gemm.run(gemm.plan(options, runtime), print_line)
    return result, time.perf_counter() - began


def summarize(name: str, ratios: list[float]) -> dict[str, Any]:
    """Print and return a geometric mean with the extremes."""
    mean = geomean(ratios)
    if mean is not None:
        print(f"{name}: geomean {mean:.3f}x, least {min(ratios):.3f}x, most {max(ratios):.3f}x, {len(ratios)} shapes")
    return {"geomean": mean, "least": min(ratios, default=None), "most": max(ratios, default=None), "n": len(ratios)}


def fp16(arguments: argparse.Namespace) -> dict[str, Any]:
    """Tuned against cuBLAS and against the analytic choice."""
    result, seconds = sweep(options_of(arguments, "gemm", FP16, configs=3))
    table(result)
    return {
        **result.to_json(),
        "seconds_of_this_call": round(seconds, 1),
        "against_cublas": summarize("cuBLAS", [shape.over_baseline for shape in result.shapes if shape.over_baseline]),
        "against_analytic": summarize("the analytic choice", [shape.gain for shape in result.shapes if shape.gain]),
    }


def a8w8(arguments: argparse.Namespace) -> dict[str, Any]:
    """Tuned against vLLM's default, against bf16 cuBLAS, and as shares of the device's peaks."""
    # The job alone is timed; the set of three configs follows from its results and some more measurements.
    shapes = [[[m for m in rows if m >= arguments.least_m], n, k] for rows, n, k in A8W8]
    _, seconds = sweep(options_of(arguments, "a8w8_blockscale", shapes, benchmark=False))
    options = options_of(arguments, "a8w8_blockscale", shapes, configs=3, benchmark=False)
    result, _ = sweep(options)
    table(result)
    beside = folder_of(arguments) / "beside.jsonl"
    known = [json.loads(line) for line in beside.read_text().splitlines()] if beside.exists() else []
    beside_cublas = replace(options, benchmark=True)
    with Runtime(print_line) as runtime:
        planned = gemm.plan(beside_cublas, runtime)
    task = planned.task
    assert task.baseline is not None
    with planned.open_evaluators[0]() as evaluator, beside.open("a") as log:
        done = {(row["M"], row["N"], row["K"]) for row in known}
        for entry in result.shapes:
            shape = entry.shape
            if entry.config is None or (shape.m, shape.n, shape.k) in done:
                continue
            problem = task.problem(shape)
            others = [DEFAULT] if arguments.backend == Backend.TRITON else []
            tuned, *default = evaluator.compare(problem, task.kernel, [entry.config, *others])
            (cublas,) = evaluator.compare(*task.baseline(shape), [Config()])
            profile = evaluator.profile(problem)
            peaks, moved = profile.ceilings, profile.min_bytes
            row = {
                **{"M": shape.m, "N": shape.n, "K": shape.k, "config": dict(entry.config)},
                "tuned_ms": tuned.latency_ms,
                "vllm_default_ms": default[0].latency_ms if default else None,
                "cublas_bf16_ms": cublas.reference.median_ms if cublas.reference else None,
            }
            if tuned.latency_ms:
                rate = shape.flops / tuned.latency_ms / 1e6
                row["share_of_fp8_peak"] = rate / peaks.float8_gflop_s if peaks.float8_gflop_s else None
                row["share_of_bandwidth"] = moved / tuned.latency_ms / 1e6 / peaks.copy_gb_s
            log.write(json.dumps(row) + "\n")
            log.flush()
            known.append(row)
            print(row, flush=True)
    over = [row["vllm_default_ms"] / row["tuned_ms"] for row in known if row["vllm_default_ms"] and row["tuned_ms"]]
    large = [
        row["cublas_bf16_ms"] / row["tuned_ms"]
        for row in known
        if row["M"] >= 1024 and row["cublas_bf16_ms"] and row["tuned_ms"]
    ]
    return {
        **result.to_json(),
        "seconds_of_this_call": round(seconds, 1),
        "seconds_of_all_shapes": round(sum(item.seconds for item in result.shapes), 1),
        "beside": known,
        "against_vllms_default": summarize("vLLM's default", over),
        "against_bf16_cublas_from_1024": summarize("bf16 cuBLAS, M >= 1024", large),
        "against_analytic": summarize("the analytic choice", [item.gain for item in result.shapes if item.gain]),
    }


def exhaustive(arguments: argparse.Namespace) -> dict[str, Any]:
    """The search's choice in a whole space of the guide's size, with parts of K, at two shapes."""
    found = []
    searched = sweep(options_of(arguments, "a8w8_blockscale", EXHAUSTIVE, format="aiter", benchmark=False))[0]
    everything = options_of(
        arguments, "a8w8_blockscale", EXHAUSTIVE, format="aiter", tuner="grid", trials=100_000, benchmark=False,
        results=folder_of(arguments) / "grid",
    )  # fmt: skip
    whole = sweep(everything)[0]
    with Runtime(print_line) as runtime:
        planned = gemm.plan(everything, runtime)
    device, task = planned.device, planned.task
    fixed = store_of(everything.chosen_format).fixed(ConfigKey(everything.product, task.dtype, device))
    for ours, best in zip(searched.shapes, whole.shapes, strict=True):
        assert ours.config is not None and best.times
        least, chosen = min(best.times.values()), best.times.get(ours.config)
        size = space_for(task.kernel, ours.shape, task.product(ours.shape), device.limits, fixed).size
        share = least / chosen if chosen else None
        found.append({"shape": str(ours.shape), "configs": size, "best_ms": least, "chosen_ms": chosen, "share": share,
                      "search_s": ours.seconds, "exhaustive_s": best.seconds})  # fmt: skip
        print(found[-1], flush=True)
    return {"shapes": found}


def table(result: gemm.Result) -> None:
    """Print the shapes as a table."""
    print("| M | N | K | ms | TFLOP/s | cuBLAS TFLOP/s | x cuBLAS | x analytic | config |\n|" + "---|" * 9)
    for item in result.shapes:
        shape: Shape = item.shape
        numbers = (
            item.time_ms, item.teraflops(item.time_ms), item.teraflops(item.baseline_ms), item.over_baseline, item.gain,
        )  # fmt: skip
        shown = " | ".join("-" if number is None else f"{number:.4g}" for number in numbers)
        config = " ".join(map(str, item.config.values())) if item.config else item.error
        print(f"| {shape.m} | {shape.n} | {shape.k} | {shown} | {config} |")


PARTS = {"fp16": fp16, "a8w8": a8w8, "exhaustive": exhaustive}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--trials", type=int, default=50)
    parser.add_argument("--backend", type=Backend, default=Backend.TRITON, help="of a8w8: triton or tilelang")
    parser.add_argument("--least-m", type=int, default=1, help="leave out shapes of a8w8 with fewer rows")
    parser.add_argument("--graph", action="store_true")
    parser.add_argument("--work", type=Path, default=Path("results/gemm_benchmark"))
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    found = PARTS[arguments.part](arguments)
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(
            json.dumps({"part": arguments.part, **tuners_environment(), **found}, indent=1) + "\n"
        )


if __name__ == "__main__":
    run_benchmark(main)
