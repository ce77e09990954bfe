"""Measures the gain of each rewrite rule alone on the shipped kernels.

    python benchmarks/rules.py [--backend BACKEND] [--device DEVICE] [--workload SIZES] [--rules RULE,...]
        [--after RULE,...] [--trials N] [--json FILE] [KERNEL ...]

For each kernel and each rule that fires on it: the latency before, the best latency over the rule's own parameters
(of at most N configs, which a tuner chooses), and their ratio, all from one run. `--after` first applies other rules,
at their default, to what is then called before: wide-tiles means most `--after split-precision`. By default the CPU's
kernels; `--backend triton --device cuda` takes those for a GPU.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import tempfile
from dataclasses import replace
from pathlib import Path

from command import run_benchmark
from kernelwright.agent.applied_rules import formatted
from kernelwright.agent.rules import RULES, Machine, NotApplicableError, Rewritten
from kernelwright.core import Budget, Config, Evaluation, Evaluator, Journal, PythonKernel
from kernelwright.core.files import cache_folder
from kernelwright.corpus import list_kernels
from kernelwright.evaluators.local import LocalEvaluator
from kernelwright.evaluators.settings import Settings
from kernelwright.runtime.devices import CPU, choose_device
from kernelwright.runtime.evaluators import machine, search_evaluator
from kernelwright.runtime.jobs import Job, find_job
from kernelwright.runtime.options.groups import ProblemOptions
from kernelwright.tuners import catalogue
from kernelwright.tuners.search import Search

BACKENDS = ("tilelang_cpu", "tilelang", "triton")
TUNER = "portfolio"


def main() -> None:
    options = parsed()
    device = choose_device(options.device)
    rules = [rule for rule in RULES if not options.rules or rule.name in options.rules.split(",")]
    names = options.kernels or [file.problem for file in list_kernels(options.backend)]
    evaluator = (
        LocalEvaluator(CPU, memory=cache_folder())
        if device == CPU
        else search_evaluator([device], None, True, Settings())
    )
    rows = []
    with contextlib.ExitStack() as stack:
        stack.enter_context(evaluator)
        for name in names:
            given = ProblemOptions(device=device, backend=options.backend, workload=options.workload)
            job = find_job(given, name, device)
            assert isinstance(job.kernel, PythonKernel)
            kernel = after(job.kernel, options.after, machine(device))
            if kernel is None:
                continue
            (start,) = evaluator.evaluate(job.problem, kernel, [Config()])
            for rule in rules:
                try:
                    rewritten = rule.apply(kernel, machine(device))
                except NotApplicableError:
                    continue
                found = search(evaluator, replace(job, kernel=formatted(rewritten.kernel)), rewritten, options.trials)
                rows.append(row(job.problem.id, rule.name, start, found))
                print(", ".join(f"{key} {value}" for key, value in rows[-1].items()), flush=True)
                if options.json:
                    options.json.write_text(json.dumps({"rows": rows}, indent=1) + "\n")
        environment = evaluator.environment(job.problem)
    print(json.dumps(environment))
    if options.json:
        settings = {"after": options.after, "workload": options.workload}
        text = json.dumps({"environment": environment, **settings, "rows": rows}, indent=1)
        options.json.write_text(text + "\n")


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernels", nargs="*", metavar="KERNEL")
    parser.add_argument("--backend", choices=BACKENDS, default=BACKENDS[0])
    parser.add_argument("--device", default=CPU)
    parser.add_argument("--workload", help="sizes, by default the device's own")
    parser.add_argument("--rules", default="", help="only these, with commas between them")
    parser.add_argument("--after", default="", help="rules that are applied before, with commas between them")
    parser.add_argument("--trials", type=int, default=40, help="configs of one rule's parameters at the most")
    parser.add_argument("--json", type=Path, help="write the metrics to this file too")
    return parser.parse_args()


def after(kernel: PythonKernel, names: str, device: Machine) -> PythonKernel | None:
    """Return the kernel with these rules applied, None where one does not fire."""
    by_name = {rule.name: rule for rule in RULES}
    for name in filter(None, names.split(",")):
        try:
            kernel = formatted(by_name[name].apply(kernel, device).kernel)
        except NotApplicableError:
            return None
    return kernel


def search(evaluator: Evaluator, job: Job, rewritten: Rewritten, trials: int) -> list[Evaluation]:
    """Evaluate the kernel at the configs of the rule's own parameters."""
    space = rewritten.space
    if space is None or space.cardinality <= trials:
        return list(evaluator.evaluate(job.problem, job.kernel, list(space) if space else [Config()]))
    tuner = catalogue.create_tuner(TUNER, space, start=[space.default], profile=evaluator.profile(job.problem))
    with tempfile.TemporaryDirectory() as folder, Journal(Path(folder) / "journal.jsonl") as journal:
        budget = Budget(trials=trials)
        search = Search(job.problem, job.kernel, space, tuner, evaluator, journal, budget)
        return list(search.run().evaluations)


def row(kernel: str, rule: str, start: Evaluation, found: list[Evaluation]) -> dict[str, object]:
    """Return what one rule does to one kernel; without a correct config its gain is None and a message says why."""
    best = min((e for e in found if e.latency_ms), key=lambda e: e.latency_ms or 0.0, default=None)
    wrong = [e for e in found if not e.ok]
    return {
        "kernel": kernel,
        "rule": rule,
        "before_ms": round(start.latency_ms, 4) if start.latency_ms else None,
        "after_ms": round(best.latency_ms, 4) if best and best.latency_ms else None,
        "gain": round(start.latency_ms / best.latency_ms, 3) if best and best.latency_ms and start.latency_ms else None,
        "config": dict(best.config) if best else None,
        "configs": len(found),
        "refused": len(wrong),
        "message": wrong[0].message[:200] if wrong else "",
        "disturbed": any(e.contention is not None for e in [start, *found]),
    }


if __name__ == "__main__":
    run_benchmark(main)
