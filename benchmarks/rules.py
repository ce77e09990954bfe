"""Measures the gain of each rewrite rule alone on the shipped CPU kernels.

    python benchmarks/rules.py [--json FILE] [KERNEL ...]

For each kernel and each rule that fires on it: the latency before, the best latency over the rule's own parameters,
and their ratio, all from one run.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from kernelwright.agent.rule_proposer import formatted
from kernelwright.agent.rules import RULES
from kernelwright.api.devices import CPU
from kernelwright.api.evaluators import local_evaluator, machine
from kernelwright.api.jobs import find_job
from kernelwright.api.options.groups import ProblemOptions
from kernelwright.core import Config
from kernelwright.corpus import list_kernels


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernels", nargs="*", metavar="KERNEL")
    parser.add_argument("--json", type=Path, help="write the metrics to this file too")
    options = parser.parse_args()
    names = options.kernels or [file.problem for file in list_kernels("tilelang_cpu")]
    rows = []
    with local_evaluator(CPU) as evaluator:
        for name in names:
            job = find_job(ProblemOptions(device=CPU), name, CPU)
            (start,) = evaluator.evaluate(job.problem, job.kernel, [Config()])
            for rule in RULES:
                rewritten = rule.apply(job.kernel, machine(CPU))
                if rewritten is None or start.latency_ms is None:
                    continue
                configs = list(rewritten.space) if rewritten.space else [Config()]
                found = list(evaluator.evaluate(job.problem, formatted(rewritten.kernel), configs))
                best = min((e for e in found if e.latency_ms), key=lambda e: e.latency_ms or 0.0, default=None)
                row = {
                    "kernel": job.problem.id,
                    "rule": rule.name,
                    "before_ms": round(start.latency_ms, 4),
                    "after_ms": round(best.latency_ms, 4) if best and best.latency_ms else None,
                    "gain": round(start.latency_ms / best.latency_ms, 3) if best and best.latency_ms else None,
                    "config": dict(best.config) if best else None,
                    "disturbed": any(e.contention is not None for e in [start, *found]),
                }
                rows.append(row)
                print(", ".join(f"{key} {value}" for key, value in row.items()), flush=True)
        environment = evaluator.environment(job.problem)
    print(json.dumps(environment))
    if options.json:
        options.json.write_text(json.dumps({"environment": environment, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
