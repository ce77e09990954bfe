"""How fast the loop works: seconds to the first proposal, trials a minute, and what a run gains.

    python benchmarks/loop.py level2/2_10.py [KERNEL ...] [--device cpu] [--time-limit 120] [--json FILE]

Each kernel is optimized by the rules, in a process of its own, with an empty folder for results. The first proposal is
when the loop has rules to try or parameters to search, counted from the start of the process; its imports are part of
it. Trials are all evaluations, from that moment to the end of the last turn.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from command import run_benchmark

PROGRAM = """
import json, sys, time
import kernelwright
from kernelwright.events import Proposed, TrialDone, TurnEnded

class Noting:
    proposal = ended = None
    trials = 0

    def __call__(self, event):
        if isinstance(event, Proposed):
            self.proposal = self.proposal or time.time()
        if isinstance(event, TrialDone):
            self.trials += event.origin.startswith("turn")
        if isinstance(event, TurnEnded):
            self.ended = time.time()

began, kernel, options = float(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])
noting = Noting()
run = kernelwright.optimize(
    kernel, model="rules", target_speedup=1000, on_event=noting, archive=False, **options
)
start, best = run.outcome.start, run.outcome.best
working = noting.ended - noting.proposal if noting.ended else 0
print(json.dumps({
    "kernel": kernel,
    "first_proposal_s": round(noting.proposal - began, 2) if noting.proposal else None,
    "start_s": {name: round(seconds, 2) for name, seconds in start.stages.items()},
    "trials": noting.trials,
    "trials_a_minute": round(60 * noting.trials / working, 1) if working else None,
    "seconds": round(time.time() - began, 1),
    "gain": round(start.latency_ms / best.latency_ms, 3) if start.latency_ms and best.latency_ms else None,
    "speedup": best.speedup.ratio if best.speedup else None,
    "beside_compile": run.beside_compile,
    "disturbed": best.contention is not None,
    "turns": [
        [turn.strategy, round(turn.gain, 3), {tried.proposal.strategy: round(tried.gain, 3) for tried in turn.tried}]
        for turn in run.outcome.turns
    ],
    "stopped": run.outcome.stopped,
    "environment": best.environment,
}))
"""


def measured(kernel: str, options: dict[str, Any]) -> dict[str, Any]:
    """Optimize one kernel in a new process."""
    with tempfile.TemporaryDirectory(prefix="kernelwright-loop-") as folder:
        given = json.dumps({**options, "results": f"{folder}/results"})
        began = time.time()
        command = [sys.executable, "-c", PROGRAM, str(began), kernel, given]
        run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernels", nargs="+", metavar="KERNEL")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--backend", help="triton, tilelang or tilelang_cpu; by default the device's own")
    parser.add_argument("--time-limit", type=float, help="seconds for each kernel; by default no limit")
    parser.add_argument("--json", type=Path, help="write the metrics to this file too, after each kernel")
    arguments = parser.parse_args()
    options = {"device": arguments.device, "time_limit": arguments.time_limit, "backend": arguments.backend}
    results = []
    for kernel in arguments.kernels:
        results.append(measured(kernel, options))
        print(json.dumps(results[-1]), flush=True)
        if arguments.json:
            arguments.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    run_benchmark(main)
