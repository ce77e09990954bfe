"""Measures the cost of each sandbox, and whether kernels run in it: `python benchmarks/containment.py [cpu|cuda]`."""

from __future__ import annotations

import statistics
import sys
import time

from kernelwright.core import Config, KernelwrightError
from kernelwright.corpus import find_kernel, find_problem
from kernelwright.evaluators.local import LocalEvaluator
from kernelwright.evaluators.pipeline.servers import languages_of
from kernelwright.evaluators.sandbox import bubblewrap, landlock
from kernelwright.evaluators.sandbox.places import Places
from kernelwright.evaluators.settings import Sandbox, Settings

FORKS = 10


def main(device: str) -> None:
    """Print one block of lines per sandbox."""
    problem = find_problem("1_19").read()
    problem = problem.at("tiny") if device == "cpu" else problem
    kernel = find_kernel("1_19", "tilelang_cpu" if device == "cpu" else "triton").read()
    print(f"Landlock version {landlock.abi()}; bubblewrap: {bubblewrap.obstacle(Places.of_this_process()) or 'works'}")
    for sandbox in (Sandbox.NONE, Sandbox.LANDLOCK, Sandbox.BWRAP, Sandbox.AUTO):
        start = time.perf_counter()
        try:
            with LocalEvaluator(device, Settings(sandbox=sandbox)) as evaluator:
                processes = evaluator.processes
                processes.servers.load(languages_of(kernel))
                pids = processes.server_pids
                ready = time.perf_counter() - start
                print(f"{sandbox}: used {processes.sandbox_used}, {len(pids)} servers ready after {ready:.2f} s")
                new_worker = processes.candidate(problem)
                spent = []
                for _ in range(FORKS):
                    start = time.perf_counter()
                    worker = new_worker()
                    spent.append(time.perf_counter() - start)
                    worker.discard()
                print(f"  a fork takes {statistics.median(spent) * 1e3:.1f} ms")
                for _ in range(2):
                    start = time.perf_counter()
                    (found,) = evaluator.evaluate(problem, kernel, [Config()])
                    seconds = time.perf_counter() - start
                    print(f"  {kernel.name}: {found.status} in {seconds:.2f} s {found.message} {found.speedup or ''}")
                    print(f"  {found.log[-1500:]}" if not found.speedup else "")
        except KernelwrightError as error:
            print(f"{sandbox}: {error}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "cpu")
