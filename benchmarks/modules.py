"""Modules in bf16 as users have them: which have a start of structures, whether it is right, and how fast it is.

    python benchmarks/modules.py [--cpu] [--starts all] [--only WORD] [--shard 1/4] [--trials 60]
                                [--baselines compile] [--output FILE.jsonl] [--resume]

The modules stand in benchmarks/modules. On a GPU each has its production sizes; the start of structures is timed beside
eager PyTorch, torch.compile and torch.compile with max-autotune, and again after a search of `--trials` configs. With
`--starts all` a row is of the fastest of all starts, those with torch's library among them. `--cpu` takes small sizes
and shows only which modules have a start and whether it is right, in Triton's interpreter.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from command import run_benchmark
from first_kernels import TRIAL, figures, tuned
from kernelwright.agent.first_kernels.from_structures import structured_kernel
from kernelwright.agent.first_kernels.unsupported_code import UnsupportedCodeError
from kernelwright.core import Config, KernelwrightError, PythonKernel, TorchProblem
from kernelwright.core.environment import cores
from kernelwright.core.files import cache_folder
from kernelwright.corpus import find_problem
from kernelwright.evaluators.local import LocalEvaluator
from kernelwright.evaluators.settings import AllowTorch, Sampling, SearchSettings, Settings
from kernelwright.runtime.first_kernels import screened, starts_for
from problem_rows import Rows, share_of

MODULES = Path(__file__).with_name("modules")
BASELINES = ("compile", "max-autotune")
SETTINGS = Settings(allow_torch=AllowTorch.ALL, sampling=Sampling(seconds=0.5), second_workload=False)


def start_of(problem: TorchProblem, evaluator: LocalEvaluator) -> PythonKernel:
    """Return the kernel that structures give. Raises `UnsupportedCodeError`."""
    graph = evaluator.operator_graph(problem)
    if isinstance(graph, str):
        raise UnsupportedCodeError(graph)
    return structured_kernel(problem, graph)


def best_start(problem: TorchProblem, evaluator: LocalEvaluator) -> PythonKernel:
    """Return the fastest of all starts, as `optimize` has them. Raises `UnsupportedCodeError`."""
    made = {start.name: start.make() for start in starts_for(problem, evaluator)}
    every = [kernel for variants in made.values() if not isinstance(variants, str) for kernel in variants]
    ranked = screened(problem, list({kernel.digest: kernel for kernel in every}.values()), evaluator)
    if not ranked:
        raise UnsupportedCodeError("; ".join(f"{name}: {why}" for name, why in made.items() if isinstance(why, str)))
    return ranked[0]


def row_of(path: Path, evaluator: LocalEvaluator, searcher: LocalEvaluator, options: Any) -> dict[str, Any]:
    """Return one module's row, whatever happens."""
    row: dict[str, Any] = {"id": path.stem}
    start = time.perf_counter()
    try:
        problem = find_problem(str(path)).read()
        problem = problem.at("tiny") if options.cpu else problem
        kernel = best_start(problem, evaluator) if options.starts == "all" else start_of(problem, evaluator)
        row["kernels"] = kernel.source.splitlines()[0].strip('"').partition(": ")[2]
        (found,) = evaluator.evaluate(problem, kernel, [Config()])
        row |= {"status": str(found.status), "message": found.message}
        if not options.cpu:
            row |= figures(found)
            row["baselines_ms"] = {name: item.median_ms for name, item in found.baselines.items()}
            if options.trials and found.ok:
                row["tuned"] = tuned(problem, kernel, searcher, options.trials)
    except UnsupportedCodeError as obstacle:
        row |= {"status": "no start", "message": str(obstacle)}
    except KernelwrightError as error:
        row |= {"status": type(error).__name__, "message": str(error)}
    return {**row, "seconds": round(time.perf_counter() - start, 1)}


def summary(rows: list[dict[str, Any]]) -> str:
    """Return how many starts are right, and how fast they are."""
    right = [row for row in rows if row["status"] == "ok"]
    lines = [f"{len(right)} of {len(rows)} modules have a correct start of structures"]
    for name, some in (("start", right), ("after the search", [row["tuned"] for row in right if "tuned" in row])):
        over = [row["speedup_compile"] for row in some if row.get("speedup_compile")]
        if over:
            mean = math.exp(sum(map(math.log, over)) / len(over))
            lines.append(f"{name}: {mean:.2f}x of torch.compile (geometric mean), {min(over):.2f}x at least")
    lines += [f"{row['id']}: {row['status']}: {row['message']}" for row in rows if row["status"] != "ok"]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cpu", action="store_true", help="small sizes in Triton's interpreter, without times")
    parser.add_argument("--starts", choices=("structures", "all"), default="structures", help="what the rows are of")
    parser.add_argument("--only", default="", help="take modules whose name has this word")
    parser.add_argument("--shard", default="1/1", metavar="K/N", help="one part of the modules, for several processes")
    parser.add_argument("--baselines", default=",".join(BASELINES), help="what the starts are timed beside")
    parser.add_argument("--trials", type=int, default=60, help="0: no search")
    parser.add_argument("--output", type=Path, default=Path("modules.jsonl"))
    parser.add_argument("--resume", action="store_true", help="leave out what the output has")
    options = parser.parse_args()
    rows = Rows(options.output, options.resume)
    done = {row["id"] for row in rows.rows}
    settings = SETTINGS if options.cpu else replace(SETTINGS, baselines=tuple(options.baselines.split(",")))
    search = SearchSettings(compilers=max(1, cores() // 2), window=cores(), sampling=TRIAL)
    searching = replace(settings, sampling=Sampling(), search=search)
    with (
        LocalEvaluator("cpu" if options.cpu else "cuda", settings, cache_folder()) as evaluator,
        evaluator.beside(searching) as searcher,
    ):
        for path in share_of(sorted(MODULES.glob("*.py")), options.shard):
            if options.only in path.stem and path.stem not in done:
                rows.add(row_of(path, evaluator, searcher, options))
                print(json.dumps(rows.rows[-1])[:300], flush=True)
    print(summary(rows.rows))
    return int(any(row["status"] != "ok" for row in rows.rows))


if __name__ == "__main__":
    run_benchmark(main)
