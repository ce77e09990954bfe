"""Measures what threads that spin after a parallel region cost: `python benchmarks/spinning.py [--json FILE]`.

libgomp's threads wait for the next parallel region by spinning. There is one process per setting of the spinning; all
take turns and sleep while another one measures, so every ratio is of one run:

- how long threads run on after a parallel region;
- the reference: the lower quartile of a call, and its ratio to the default setting's;
- a candidate in a process with torch: the cores that serial code keeps busy, and what two threads gain, after all of
  torch's threads wrote the inputs, and after one did (as the evaluator does).
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from command import run_benchmark
from kernelwright.core import TorchProblem
from kernelwright.corpus import find_problem
from kernelwright.evaluators.correctness.inputs import Feed
from kernelwright.evaluators.timing.clock import Clock, bind_call
from kernelwright.evaluators.timing.priority import raised
from kernelwright.evaluators.timing.threads import wait_until_asleep
from kernelwright.evaluators.workers.modules import ProblemModule
from kernelwright.evaluators.workers.one_thread import OneThread
from kernelwright.evaluators.workers.problem_file import problem_options
from kernelwright.runtime.devices import device_label

SETTINGS: dict[str, dict[str, str]] = {
    "default": {},
    "GOMP_SPINCOUNT=20000": {"GOMP_SPINCOUNT": "20000"},
    "GOMP_SPINCOUNT=2000": {"GOMP_SPINCOUNT": "2000"},
    "OMP_WAIT_POLICY=passive": {"OMP_WAIT_POLICY": "passive"},
}
"""Variables by the name of the setting; ratios are to the first."""
PROBLEMS = (("2_10", "tiny"), ("2_10", "cpu"), ("1_1", "cpu"), ("1_40", "tiny"), ("2_12", "tiny"))
ROUNDS, SAMPLES = 12, 10
HASHED_BYTES = 2 << 20
"""Bytes that each half of the candidate's work hashes: some milliseconds in C, outside of Python's lock."""


def main() -> None:
    """Run the workers in turns and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        serve()
        return
    found: dict[str, Any] = {}
    with contextlib.ExitStack() as stack:
        asked = {name: Asked(stack.enter_context(started(variables))) for name, variables in SETTINGS.items()}
        for name, ask in asked.items():
            found[name] = {**ask("environment"), "runs_on_ms": ask.runs_on_ms(), "reference": {}, "candidate": {}}
        for number, (problem, workload) in enumerate(PROBLEMS):
            times = in_turns(asked, lambda ask, number=number: ask("reference", number))
            for name, ms in times.items():
                figures = {"ms": round(ms, 4), "ratio": round(ms / times["default"], 3)}
                found[name]["reference"][f"{problem} {workload}"] = figures
        for writers in ("all", "one"):
            candidates = in_turns(asked, lambda ask, w=writers: [ask("candidate", w)])
            for name, figures in candidates.items():
                found[name]["candidate"][f"inputs by {writers}"] = figures
    for name, figures in found.items():
        print(name, json.dumps(figures, indent=1))
    if arguments.json:
        arguments.json.write_text(json.dumps({"processor": device_label("cpu"), **found}, indent=1) + "\n")


def in_turns(asked: dict[str, Asked], ask: Callable[[Asked], list[Any]]) -> dict[str, Any]:
    """Return the lower quartile of all workers' samples, or what `summary_of` makes of their figures."""
    samples: dict[str, list[Any]] = {name: [] for name in asked}
    for _ in range(ROUNDS):
        for name, asking in asked.items():
            samples[name] += ask(asking)
    return {name: summary_of(values) for name, values in samples.items()}


def summary_of(values: list[Any]) -> Any:
    """Return the lower quartile of times, to which other processes only add; of a candidate the median of the cores
    and the best gain, which others only lessen.
    """
    if isinstance(values[0], dict):
        return {
            "cores_of_serial": round(statistics.median(value["cores_of_serial"] for value in values), 2),
            "gain_of_two_threads": round(max(value["gain_of_two_threads"] for value in values), 2),
        }
    return statistics.quantiles(values, n=4)[0]


@contextlib.contextmanager
def started(variables: dict[str, str]) -> Any:
    """Start a worker with these variables, and end it."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_"))}
    command = [sys.executable, __file__, "--worker"]
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        command, stdin=pipe, stdout=pipe, text=True, env=ours | variables, start_new_session=True
    )
    with process, raised([process.pid]):
        yield process
        process.terminate()


class Asked:
    """A worker, whose threads sleep when a request returns."""

    def __init__(self, worker: subprocess.Popen[str]) -> None:
        self._worker = worker

    def __call__(self, *request: Any) -> Any:
        """Send a request and return its response."""
        assert self._worker.stdin is not None and self._worker.stdout is not None
        print(json.dumps(request), file=self._worker.stdin, flush=True)
        answer = json.loads(self._worker.stdout.readline())
        wait_until_asleep([self._worker.pid], seconds=1.0)
        return answer

    def runs_on_ms(self) -> float:
        """Return for how long threads run on after a parallel region."""
        return round(statistics.median(1e3 * (-self("parallel_region") + time.time()) for _ in range(9)), 2)


def serve() -> None:
    """Serve requests until the input ends."""
    import torch

    torch.set_grad_enabled(False)
    with tempfile.TemporaryDirectory() as folder:
        worker = Worker(Path(folder))
        for line in sys.stdin:
            name, *values = json.loads(line)
            print(json.dumps(getattr(worker, name)(*values)), flush=True)


class Worker:
    """Measures with the variables of its process; each method serves the request of its name."""

    def __init__(self, folder: Path) -> None:
        import torch

        self._folder = folder
        self._references: dict[int, Any] = {}
        self._pool = ThreadPoolExecutor(1)
        self._one_thread = OneThread()
        with self._one_thread:
            self._base = torch.rand(HASHED_BYTES // 4)
            self._inputs = self._base.clone()

    def environment(self) -> dict[str, Any]:
        """Return torch's version and number of threads."""
        import torch

        return {"torch": torch.__version__, "threads": torch.get_num_threads()}

    def parallel_region(self) -> float:
        """Return the time at which a parallel region ended."""
        import torch

        torch.ones(1 << 22).mul_(2)
        return time.time()

    def reference(self, number: int) -> list[float]:
        """Return samples of a problem's reference, taken as the evaluator takes them."""
        if number not in self._references:
            name, workload = PROBLEMS[number]
            options = problem_options(TorchProblem.of(find_problem(name).read()).at(workload), self._folder)
            module = ProblemModule(Path(options["problem"]), options["sizes"], "cpu")
            feed = Feed(module)
            feed.restart(0)
            self._references[number] = feed, module.model(0)
        feed, model = self._references[number]

        def next_call() -> Any:
            _, inputs = feed.next()
            return 0, bind_call(model, inputs)

        return Clock("cpu").sample(next_call, SAMPLES).times_ms

    def candidate(self, writers: str) -> dict[str, float]:
        """Return the cores that serial code keeps busy, and its time over that of two threads."""
        import torch

        base, inputs = self._base, self._inputs
        view = memoryview(inputs.numpy()).cast("B")

        def hashed() -> bytes:
            return hashlib.sha256(view).digest()

        def serial() -> object:
            return hashed(), hashed()

        def threaded() -> object:
            other = self._pool.submit(hashed)
            return hashed(), other.result()

        def after_inputs(call: Any) -> Any:
            def next_call() -> Any:
                with self._one_thread if writers == "one" else contextlib.nullcontext():
                    torch.mul(base, 1.01, out=inputs)
                return 0, call

            return next_call

        clock = Clock("cpu")
        alone = clock.sample(after_inputs(serial), SAMPLES)
        both = clock.sample(after_inputs(threaded), SAMPLES)
        gain = statistics.median(alone.times_ms) / statistics.median(both.times_ms)
        return {"cores_of_serial": alone.cores, "gain_of_two_threads": gain}


if __name__ == "__main__":
    run_benchmark(main)
