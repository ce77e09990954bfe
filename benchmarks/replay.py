"""Compares kernels that are timed by replaying their launch plans with the same kernels in their own processes.

    python benchmarks/replay.py [--backend triton,tilelang] [--only 2_10] [--kernels DIR] [--examples] [--share 0/4]
        [--json FILE]

Times are compared as ratios to the reference, which is timed interleaved with each. Above 20 us they must agree within
2 %. `--examples` takes the worked examples instead, `--kernels` files that are named like their problems as well, and
`--share 1/4` every fourth of them from the second on.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from command import run_benchmark
from kernelwright.core import Config, Evaluation, Kernel, PythonKernel, TorchProblem
from kernelwright.core.files import cache_folder
from kernelwright.corpus import find_problem
from kernelwright.corpus.examples import list_examples
from kernelwright.corpus.kernels import list_kernels
from kernelwright.evaluators.languages.base import support_of
from kernelwright.evaluators.local import LocalEvaluator
from kernelwright.evaluators.settings import Settings

SETTINGS = Settings(require_replay=False)
"""In its own process a kernel is not replayed, on purpose."""
LONG_MS = 0.02
"""Kernels above this time must agree."""
REQUIRED = 0.02


def cases(arguments: argparse.Namespace) -> Iterator[tuple[str, TorchProblem, Kernel]]:
    """Yield the kernels to compare, with a name and their problem."""
    workload = "default" if arguments.device.startswith("cuda") else "cpu"
    for backend in arguments.backend.split(","):
        for stored in list_kernels(backend) if not arguments.examples else ():
            yield f"{backend} {stored.problem}", find_problem(stored.problem).read().at(workload), stored.read()
        for example in list_examples() if arguments.examples else ():
            if example.backend == backend:
                yield example.slug, example.read_problem(), example.read_kernel("after")
    for path in sorted(arguments.kernels.glob("*.py")) if arguments.kernels else ():
        kernel = PythonKernel.parse(path.read_text(), path.stem)
        yield f"{path.parent.name} {path.stem}", find_problem(path.stem).read().at(workload), kernel


@contextlib.contextmanager
def in_its_own_process(kernel: Kernel) -> Iterator[None]:
    """Time a kernel where its Python runs, as if its launches could not be recorded."""
    support = support_of(kernel.language)
    support.records = ()
    try:
        yield
    finally:
        del support.records


def compared(evaluator: LocalEvaluator, name: str, problem: TorchProblem, kernel: Kernel) -> dict[str, Any]:
    """Evaluate a kernel both ways."""
    (replayed,) = evaluator.evaluate(problem, kernel, [Config()])
    with in_its_own_process(kernel):
        (own,) = evaluator.evaluate(problem, kernel, [Config()])
    row: dict[str, Any] = {"kernel": name, "status": str(replayed.status), "own_status": str(own.status)}
    if not replayed.ok or not own.ok:
        return {**row, "message": replayed.message or own.message}
    assert replayed.replay is not None
    row |= {"replayed": replayed.replay.replayed, "reason": replayed.replay.reason}
    row |= {"steps": len(replayed.replay.steps), "replay_ms": _ms(replayed), "own_ms": _ms(own)}
    if replayed.speedup and own.speedup:
        row["ratio"] = round(own.speedup.ratio / replayed.speedup.ratio, 4)
    stages = {key: round(value, 2) for key, value in replayed.stages.items()}
    row["environment"] = replayed.environment
    return {**row, "stages": stages, "disturbed": replayed.contention is not None or own.contention is not None}


def _ms(evaluation: Evaluation) -> float | None:
    return None if evaluation.latency_ms is None else round(evaluation.latency_ms, 5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--backend", default="triton,tilelang")
    parser.add_argument("--only", default="")
    parser.add_argument("--kernels", type=Path)
    parser.add_argument("--examples", action="store_true")
    parser.add_argument("--share", default="0/1")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    first, of = map(int, arguments.share.split("/"))
    chosen = [case for case in cases(arguments) if arguments.only in case[0]][first::of]
    rows: list[dict[str, Any]] = []
    with LocalEvaluator(arguments.device, memory=cache_folder(), settings=SETTINGS) as evaluator:
        for case in chosen:
            rows.append(compared(evaluator, *case))
            print(json.dumps({name: value for name, value in rows[-1].items() if name != "environment"}), flush=True)
    apart = {row["kernel"]: abs(row["ratio"] - 1) for row in rows if row.get("ratio") and row["own_ms"] > LONG_MS}
    not_replayed = [row for row in rows if not row.get("replayed")]
    print(f"{len(rows) - len(not_replayed)} of {len(rows)} kernels are replayed")
    if apart:
        far = ", ".join(f"{name} {gap:.1%}" for name, gap in apart.items() if gap > REQUIRED)
        print(f"apart by {statistics.median(apart.values()):.2%} in the median; beyond 2 %: {far or 'none'}")
    if arguments.json:
        arguments.json.write_text(json.dumps({"rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    run_benchmark(main)
