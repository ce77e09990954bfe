"""Compares searches of attention schedules on a GPU: tuners at equal budget, five seeds, and other ways to the same.

    python benchmarks/attention.py [--problem long | --eight] [--trials 12] [--seconds 80] [--resume] [--json FILE]

For each problem these are, first, TileLang's automatic pipelining at the same tiles with 0 to 3 stages, all of them,
and the schedule by hand at all tiles; then all tuners and seeds side by side, so that a time limit leaves each with
about as many trials. All share one evaluator, and a config is measured once: who asks for it later gets the same
result, and pays a trial for it. At the end the best of each way are timed interleaved with each other and with torch's
scaled_dot_product_attention: every ratio is of that one comparison. The fastest is then timed interleaved with SDPA's
cuDNN backend, by its name. `--seconds` limits a problem's trials; the
comparison takes some 20 seconds more. What was measured is in a journal, from which `--resume` goes on.

Needs a GPU; with --simulate the tuners alone run in the simulator, and every figure says so.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import time
from collections.abc import Collection, Hashable
from pathlib import Path
from typing import Any

from command import run_benchmark
from environment import tuners_environment
from kernelwright import AttentionConfig, ScheduleOptimizer
from kernelwright.core import Config, Evaluation, Evaluator, Journal, SearchSpace, TorchProblem, Trial, set_aside
from kernelwright.core.environment import cores
from kernelwright.evaluators.settings import Limits, Settings
from kernelwright.evaluators.simulated import SimulatedEvaluator
from kernelwright.runtime.attention import COMPILE_S
from kernelwright.runtime.devices import device_label
from kernelwright.runtime.evaluators import search_evaluator
from kernelwright.runtime.options.attention import Half
from kernelwright.tuners.grid import Grid
from kernelwright.tuners.schedule.attention import BY_HAND, REGISTERS, SHARED_BYTES
from kernelwright.tuners.schedule.modulo import schedule_in_order
from kernelwright.tuners.schedule.sdpa import SdpaBackend, problem_by
from side_by_side import SideBySide

PROBLEMS: dict[str, dict[str, Any]] = {
    "default": {"num_heads": 32, "seq_len_q": 512, "head_dim": 64},
    "long": {"num_heads": 32, "seq_len_q": 4096, "head_dim": 128},
    "causal": {"batch_size": 4, "num_heads": 16, "seq_len_q": 2048, "head_dim": 128, "causal": True},
}
"""By the problem's workloads."""
EIGHT: dict[str, dict[str, Any]] = {
    "d64_512": {"batch_size": 8, "num_heads": 32, "seq_len_q": 512, "head_dim": 64},
    "d64_1024_causal": {"batch_size": 8, "num_heads": 32, "seq_len_q": 1024, "head_dim": 64, "causal": True},
    "d64_4096_bf16": {"batch_size": 2, "num_heads": 32, "seq_len_q": 4096, "head_dim": 64, "dtype": Half.BFLOAT16},
    "d64_16384_causal": {"num_heads": 16, "seq_len_q": 16384, "head_dim": 64, "causal": True},
    "d128_2048_causal": {"batch_size": 4, "num_heads": 16, "seq_len_q": 2048, "head_dim": 128, "causal": True},
    "d128_4096": {"num_heads": 32, "seq_len_q": 4096, "head_dim": 128},
    "d128_8192_gqa_bf16": {
        "num_heads": 32, "num_kv_heads": 8, "seq_len_q": 8192, "head_dim": 128, "causal": True, "dtype": Half.BFLOAT16,
    },
    "d128_16384": {"num_heads": 16, "seq_len_q": 16384, "head_dim": 128},
}  # fmt: skip
"""Shapes for the comparison with cuDNN: head sizes 64 and 128, causal and not, shared heads, 512 to 16k keys, both
dtypes. `--eight` takes them instead."""
TUNERS = ("schedule", "random_moves", "portfolio")
STAGES = (0, 1, 2, 3)
AUTOMATIC, HAND = "automatic", "by hand"


def automatic(optimizer: ScheduleOptimizer) -> list[Config]:
    """Return TileLang's own pipelining at all tiles whose results take no more registers than a thread may have.

    Those of the space need some more; of tiles without them, which it leaves out, one was the fastest here before.
    """
    shape, tiles = optimizer.shape, optimizer.space.tiles
    assert tiles is not None
    values = {parameter.name: parameter.values for parameter in tiles.parameters}
    width = shape.head_dim + shape.head_dim_kv
    off = {"ROLES": False, "TURNS": False}
    return [
        Config({"AUTOMATIC": True, "NUM_STAGES": stages, "BLOCK_M": m, "BLOCK_N": n, "THREADS": 2 * int(m), **off})
        for m in values["BLOCK_M"]
        for n in values["BLOCK_N"]
        for stages in STAGES
        if 2 * (int(m) * shape.head_dim + max(1, stages) * int(n) * width) <= SHARED_BYTES
        and shape.head_dim_kv // 2 + 3 * int(n) // 4 <= REGISTERS // (2 * int(m))
    ]


def by_hand(optimizer: ScheduleOptimizer) -> list[Config]:
    """Return the schedule by hand, in turns, at all tiles that load ahead and have all registers of their groups.

    At the default tiles, first, also in all orders of the work, with the wait for PV in place, and with bulk stores.
    """
    space = optimizer.space
    assert space.tiles is not None
    work = ("WAIT_IN_PLACE", "HEADS_ABREAST", "WORKERS", "BULK_STORE")
    plain = space.tiles.default

    def differs(config: Config, but: Collection[str]) -> bool:
        return any(config[name] != plain[name] for name in config if name not in but)

    listed = sorted(space.tiles, key=lambda tiles: differs(tiles, work))
    turns = [item for item in listed if item["TURNS"] and int(item["DEPTH"]) > 1]
    turns = [turn for turn in turns if not differs(turn, work) or all(turn[name] == plain[name] for name in work)]
    most = {turn["BLOCK_M"]: max(int(other["CONSUMER_REGS"]) for other in turns if other["BLOCK_M"] == turn["BLOCK_M"])
            for turn in turns}  # fmt: skip
    kept = [turn for turn in turns if turn["CONSUMER_REGS"] == most[turn["BLOCK_M"]]]
    scheduled = [(item, schedule_in_order(space.graph(item), BY_HAND)) for item in kept]
    return [space.config(tiles, *found) for tiles, found in scheduled if found is not None]


class Benchmark:
    """One problem's searches, and their record, which is written after each trial."""

    def __init__(self, name: str, options: argparse.Namespace, record: dict[str, Any]) -> None:
        self.options, self.record = options, record
        self.found: dict[str, Any] = record.setdefault("problems", {}).setdefault(name, {})
        self.name = name
        self.config = AttentionConfig(**{**PROBLEMS, **EIGHT}[name], simulate=options.simulate, results=options.results)
        self.optimizer = ScheduleOptimizer(self.config)
        self.job, self.device = self.optimizer.job(self.config)
        self.ways: SideBySide | None = None
        self.searches: SideBySide | None = None

    def run(self, evaluator: Evaluator) -> None:
        """Measure, and compare the best."""
        path = self.options.results / f"attention_{self.name}{'_simulated' if self.options.simulate else ''}.jsonl"
        if not self.options.resume:
            set_aside(path)
        began = time.monotonic()
        until = began + self.options.seconds if self.options.seconds else None
        with Journal(path) as journal:
            grids = {} if self.options.simulate else {
                name: Grid(SearchSpace.listing(listed))
                for name, listed in ((AUTOMATIC, automatic(self.optimizer)), (HAND, by_hand(self.optimizer)))
            }  # fmt: skip
            self.ways = SideBySide(grids, 10**6, journal, self.note)
            self.ways.run(evaluator, self.job.problem, self.job.kernel, until)
            self.searches = SideBySide(self.tuners(), self.options.trials, journal, self.note, self.key)
            if until is None or time.monotonic() < until:
                self.searches.run(evaluator, self.job.problem, self.job.kernel, until)
            self.found["measured"] = self.searches.measured
            self.found["seconds"] = round(sum(trial.seconds for trial in journal.of(Trial)), 1)
            self.write()
        if not self.options.simulate:
            self.finals(evaluator, {**self.ways.trials, **self.searches.trials})
        print(f"{self.name}: {time.monotonic() - began:.0f} s in this run", flush=True)

    def tuners(self) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for seed in range(self.options.seeds):
            for tuner in TUNERS:
                config = AttentionConfig(
                    **{**PROBLEMS, **EIGHT}[self.name], simulate=self.options.simulate, tuner=tuner, seed=seed
                )
                made[f"{tuner} {seed}"] = self.optimizer.tuner(config, self.optimizer.start(config))
        return made

    def key(self, config: Config) -> Hashable:
        """What the compiler sees."""
        return self.optimizer.space.code(config) if config in self.optimizer.space else config

    def note(self, name: str, evaluation: Evaluation) -> None:
        said = f"{evaluation.status}: {evaluation.message}"
        said = said if evaluation.latency_ms is None else f"{evaluation.latency_ms:.4f} ms"
        print(f"{self.name}: {name}: {said}"[:160], flush=True)
        self.write()

    def finals(self, evaluator: Evaluator, trials: dict[str, list[Evaluation]]) -> None:
        """Compare the best of each way, interleaved."""
        groups: dict[str, list[Evaluation]] = {}
        for name, found in trials.items():
            way = name if name in (AUTOMATIC, HAND) else name.split()[0]
            groups.setdefault(way, []).extend(found)
        best = {way: Config(final.config) for way, found in groups.items() if (final := fastest(found)) is not None}
        configs = list(dict.fromkeys(best.values()))
        if not configs:
            return
        timed = dict(zip(configs, evaluator.compare(self.job.problem, self.job.kernel, configs), strict=True))
        finals = {way: row(timed[config]) for way, config in best.items()}
        searched = [final["latency_ms"] for way, final in finals.items() if way != AUTOMATIC and final["latency_ms"]]
        least, base = min(searched, default=None), finals.get(AUTOMATIC, {}).get("latency_ms")
        over = round(base / least, 4) if base and least else None
        environment = next(iter(timed.values())).environment
        self.found |= {"finals": finals, "best_over_automatic": over, "environment": environment}
        self.write()
        for way, final in finals.items():
            print(f"{self.name}: final: {way}: {final['latency_ms']} ms, {final['speedup']}x SDPA", flush=True)
        print(f"{self.name}: the best is {over} times as fast as automatic pipelining", flush=True)
        first = fastest(list(timed.values()))
        if first is None:
            return
        cudnn = problem_by(SdpaBackend.CUDNN, TorchProblem.of(self.job.problem))
        (beside,) = evaluator.compare(cudnn, self.job.kernel, [Config(first.config)])
        self.found["beside_cudnn"] = row(beside)
        self.write()
        print(f"{self.name}: {row(beside)['speedup']}x {SdpaBackend.CUDNN}", flush=True)

    def write(self) -> None:
        """Write what is known so far."""
        self.found |= {name: summary(trials) for name, trials in (self.ways.trials if self.ways else {}).items()}
        self.found |= compared(self.searches.trials) if self.searches else {}
        if self.options.json:
            self.options.json.write_text(json.dumps(self.record, indent=1) + "\n")


def fastest(trials: list[Evaluation]) -> Evaluation | None:
    timed = [trial for trial in trials if trial.latency_ms is not None]
    return min(timed, key=lambda evaluation: evaluation.latency_ms or 0.0, default=None)


def summary(trials: list[Evaluation]) -> dict[str, Any]:
    """Return the best of some trials, and how many failed."""
    best = fastest(trials)
    return {
        "trials": len(trials), "failed": sum(trial.latency_ms is None for trial in trials),
        "latency_ms": best and best.latency_ms, "config": best and best.config,
    }  # fmt: skip


def compared(searches: dict[str, list[Evaluation]]) -> dict[str, Any]:
    """Return each search's best at the number of trials that all have, and the median of each tuner's seeds."""
    equal = min(map(len, searches.values()))
    rows = {name: summary(trials[:equal]) for name, trials in searches.items()}
    medians = {}
    for tuner in TUNERS:
        times = [row["latency_ms"] for name, row in rows.items() if name.split()[0] == tuner and row["latency_ms"]]
        medians[tuner] = statistics.median(times) if times else None
    return {"equal_trials": equal, "median_ms": medians, "searches": rows}


def row(final: Evaluation) -> dict[str, Any]:
    """Return a finalist's figures."""
    ratio = final.speedup
    return {
        "status": str(final.status), "config": final.config, "latency_ms": final.latency_ms,
        "reference_ms": final.reference and round(final.reference.median_ms, 5),
        "speedup": ratio and round(ratio.ratio, 4),
        "interval": ratio and [round(ratio.low, 4), round(ratio.high, 4)],
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problem", choices=[*PROBLEMS, *EIGHT], action="append")
    parser.add_argument("--eight", action="store_true", help="the eight shapes for the comparison with cuDNN")
    parser.add_argument("--trials", type=int, default=12, help="of each search")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--seconds", type=float, help="a problem's trials begin within this time")
    parser.add_argument("--results", type=Path, default=Path("results/attention_benchmark"), help="for the journals")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--simulate", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    options.results.mkdir(parents=True, exist_ok=True)
    record: dict[str, Any] = {"simulated": options.simulate, "trials": options.trials, **tuners_environment()}
    benchmarks = [
        Benchmark(name, options, record) for name in options.problem or (EIGHT if options.eight else PROBLEMS)
    ]
    with contextlib.ExitStack() as stack:
        if not options.simulate:
            device = benchmarks[0].device
            record["device"] = device_label(device)
            # One for all problems. The searches wait for one config each: nearly all cores have something to compile.
            shared = stack.enter_context(
                search_evaluator([device], max(1, cores() - 2), True, Settings(limits=Limits(compile_s=COMPILE_S)))
            )
        for benchmark in benchmarks:
            benchmark.run(SimulatedEvaluator(benchmark.optimizer.loop) if options.simulate else shared)


if __name__ == "__main__":
    run_benchmark(main)
