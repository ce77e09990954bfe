"""Makes first kernels of torch.compile's code for problems of KernelBench, and measures what they are worth, on a GPU.

    python benchmarks/first_kernels.py --dataset DIR [--levels 1,2] [--every 3] [--trials 40] [--shard 1/1]
        [--output FILE.jsonl] [--resume] [--codes FILE.jsonl]

Takes the problems whose number is divisible by `--every`. Each row has the problem's id, the status of its first kernel
(or why there is none), whether it is replayed and calls torch's library, its time over the reference's in fp32 and
over torch.compile's, which has convolutions in TF32, seconds, and the same after a search of `--trials` configs, as its
last comparison has it: that checks as a full evaluation does, with times interleaved. `--codes` names a file that keeps
Inductor's code of each problem: what it has is not generated again.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from command import run_benchmark
from kept_codes import keep_code, kept_codes
from kernelwright.agent.first_kernels.from_inductor import first_kernel
from kernelwright.agent.first_kernels.unsupported_code import UnsupportedCodeError
from kernelwright.core import Budget, Config, Evaluation, Journal, Kernel, KernelwrightError, TorchProblem
from kernelwright.core.environment import cores
from kernelwright.core.files import cache_folder
from kernelwright.core.space_inference import declared_space
from kernelwright.corpus import ProblemFile
from kernelwright.evaluators.local import LocalEvaluator
from kernelwright.evaluators.settings import AllowTorch, Sampling, SearchSettings, Settings
from kernelwright.tuners import catalogue
from kernelwright.tuners.search import Search
from problem_rows import Rows, problems_of, share_of

COMPILE = "compile"
SETTINGS = Settings(
    allow_torch=AllowTorch.ALL,
    sampling=Sampling(seconds=0.5),
    second_workload=False,
    baselines=(COMPILE,),
)
TRIAL = replace(SearchSettings().sampling, seconds=0.15)
"""Of a call of 5 ms that is thirty samples, enough to choose what the comparison measures with full precision."""


def row_of(file: ProblemFile, evaluator: LocalEvaluator, searcher: LocalEvaluator, options: Any) -> dict[str, Any]:
    """Return one problem's row, whatever happens."""
    row: dict[str, Any] = {"id": file.id, "name": file.name}
    start = time.perf_counter()
    try:
        problem = file.read()
        code = kept_codes(options.codes, SETTINGS).get(file.id)
        if code is None:
            generated = evaluator.generated_code(problem)
            row["generate_s"] = round(time.perf_counter() - start, 1)
            if isinstance(generated, str):
                raise UnsupportedCodeError(generated)
            code = generated
            if options.codes:
                keep_code(options.codes, problem, code, SETTINGS)
        kernel = first_kernel(problem, code)
        row |= figures(next(iter(evaluator.evaluate(problem, kernel, [Config()]))))
        row["library"] = "torch computes" in kernel.source.splitlines()[0]
        if options.trials and row["status"] == "ok":
            row["tuned"] = tuned(problem, kernel, searcher, options.trials)
    except UnsupportedCodeError as obstacle:
        row |= {"status": "no kernel", "message": str(obstacle)}
    except KernelwrightError as error:
        row |= {"status": type(error).__name__, "message": str(error)}
    return {**row, "seconds": round(time.perf_counter() - start, 1)}


def figures(found: Evaluation) -> dict[str, Any]:
    """Return status, times and speedups of a kernel."""
    numbers = found.metrics()
    return {
        "status": str(found.status),
        "message": found.message,
        "replayed": found.replay.replayed if found.replay else None,
        "latency_ms": numbers.latency_ms,
        "reference_ms": numbers.reference_ms,
        "speedup": numbers.speedup,
        "speedup_compile": numbers.speedup_compile,
        "evaluation_s": {name: round(seconds, 2) for name, seconds in found.stages.items()},
    }


def tuned(problem: TorchProblem, kernel: Kernel, searcher: LocalEvaluator, trials: int) -> dict[str, Any]:
    """Search the file's own space; the best as it was compared with the first kernel, or that where it is the best."""
    space = declared_space(kernel, problem)
    if space is None:
        (alone,) = searcher.compare(problem, kernel, [Config()])
        return {"trials": 0, **figures(alone)}
    start = [space.default, *kernel.configs_in(space)]
    tuner = catalogue.create_tuner("portfolio", space, start=start, profile=searcher.profile(problem))
    with tempfile.TemporaryDirectory() as folder, Journal(Path(folder) / "journal.jsonl") as journal:
        search = Search(problem, kernel, space, tuner, searcher, journal, Budget(trials=trials))
        found = search.run()
    best = found.faster or found.start
    assert best is not None
    statuses = Counter(str(evaluation.status) for evaluation in found.evaluations)
    row = {"trials": len(found.evaluations), "statuses": statuses, "search_s": round(found.progress.seconds, 1)}
    row["trial_s"] = stages_of(found.evaluations)
    return {**row, "config": {**kernel.config, **best.config}, **figures(best)}


def stages_of(evaluations: Sequence[Evaluation]) -> dict[str, float]:
    """Return the median seconds of each stage of a trial."""
    names = dict.fromkeys(name for evaluation in evaluations for name in evaluation.stages)
    return {
        name: round(statistics.median(evaluation.stages.get(name, 0.0) for evaluation in evaluations), 3)
        for name in names
    }


def summary(rows: list[dict[str, Any]]) -> str:
    """Return how many kernels are correct, and how fast they are."""
    correct = [row for row in rows if row["status"] == "ok"]
    lines = [
        f"{len(correct)} of {len(rows)} problems have a correct first kernel, "
        f"{sum(row['library'] for row in correct)} of them with a call of torch's library"
    ]
    for name, some in (("first", correct), ("after the search", [row["tuned"] for row in correct if "tuned" in row])):
        over = [row["speedup_compile"] for row in some if row.get("speedup_compile")]
        if over:
            share = sum(item >= 0.995 for item in over) / len(over)
            lines.append(f"{name}: {statistics.median(over):.3f}x of torch.compile, at least as fast on {share:.0%}")
    lines += [f"{row['id']}: {row['status']}: {row['message']}" for row in rows if row["status"] != "ok"]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", type=Path, required=True, help="a KernelBench checkout")
    parser.add_argument("--levels", default="1,2")
    parser.add_argument("--every", type=int, default=3, help="take problems whose number is divisible by this")
    parser.add_argument("--trials", type=int, default=40, help="0: no search")
    parser.add_argument("--shard", default="1/1", help="K/N: the K-th of N parts of the problems")
    parser.add_argument("--output", type=Path, default=Path("first_kernels.jsonl"))
    parser.add_argument("--codes", type=Path, help="a file that keeps Inductor's code of each problem")
    parser.add_argument("--resume", action="store_true", help="leave out what the output has")
    options = parser.parse_args()
    problems = problems_of(options.dataset, options.levels, lambda number: number % options.every == 0)
    rows = Rows(options.output, options.resume)
    done = {row["id"] for row in rows.rows}
    search = SearchSettings(compilers=max(1, cores() // 2), window=cores(), sampling=TRIAL)
    searching = replace(SETTINGS, sampling=Sampling(), search=search)
    with (
        LocalEvaluator("cuda", SETTINGS, cache_folder()) as evaluator,
        evaluator.beside(searching) as searcher,  # the same reference, with its inputs and what torch compiled
    ):
        for file in share_of(problems, options.shard):
            if file.id in done:
                continue
            rows.add(row_of(file, evaluator, searcher, options))
            shown = {key: value for key, value in rows.rows[-1].items() if key not in ("name", "reference_ms")}
            print(json.dumps(shown)[:300], flush=True)
    print(summary(rows.rows))


if __name__ == "__main__":
    run_benchmark(main)
