"""Measures what threads that spin after a parallel region cost: `python benchmarks/spinning.py [--json FILE]`.

libgomp's threads wait for the next parallel region by spinning. One process per setting of the spinning; all take turns,
so that every ratio is of one run:

- how long threads run on after a parallel region;
- the reference: the median of a call relative to the default setting's, for problems of the corpus;
- a candidate beside torch in one process: the cores that serial code keeps busy, and what two threads gain.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from kernelwright.core import TorchProblem
from kernelwright.corpus import find_problem

SETTINGS: dict[str, dict[str, str]] = {
    "default": {},
    "GOMP_SPINCOUNT=20000": {"GOMP_SPINCOUNT": "20000"},
    "GOMP_SPINCOUNT=2000": {"GOMP_SPINCOUNT": "2000"},
    "OMP_WAIT_POLICY=passive": {"OMP_WAIT_POLICY": "passive"},
}
"""Variables by the name of the setting; ratios are to the first."""
PROBLEMS = (("2_10", "tiny"), ("2_10", "cpu"), ("1_19", "tiny"), ("1_40", "tiny"), ("1_36", "tiny"), ("2_12", "tiny"))
ROUNDS, SAMPLES = 8, 10
HASHED_BYTES = 2 << 20
"""Bytes that each half of the candidate's work hashes: some milliseconds in C, outside of Python's lock."""


def main() -> None:
    """Run the workers in turns and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        serve()
        return
    workers = {name: start(variables) for name, variables in SETTINGS.items()}
    found: dict[str, dict[str, Any]] = {name: {} for name in SETTINGS}
    for name, worker in workers.items():
        found[name] = ask(worker, "environment")
        found[name]["runs_on_ms"] = round(statistics.median(ask(worker, "runs_on") for _ in range(5)), 2)
    for number, (problem, workload) in enumerate(PROBLEMS):
        times = turns(workers, "reference", number)
        base = statistics.median(times["default"])
        for name in SETTINGS:
            median = statistics.median(times[name])
            found[name][f"reference {problem} {workload}"] = {"ms": round(median, 4), "ratio": round(median / base, 3)}
    for name, worker in workers.items():
        serial, threaded, cores = [], [], []
        for _ in range(ROUNDS):
            one = ask(worker, "candidate")
            serial += one["serial"]
            threaded += one["threaded"]
            cores.append(one["cores"])
        found[name]["serial candidate, cores"] = round(statistics.median(cores), 2)
        found[name]["two threads gain"] = round(statistics.median(serial) / statistics.median(threaded), 2)
    for worker in workers.values():
        worker.terminate()
    for name, figures in found.items():
        print(name)
        for figure, value in figures.items():
            print(f"  {figure}: {value}")
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=1) + "\n")


def turns(workers: dict[str, subprocess.Popen[str]], *request: Any) -> dict[str, list[float]]:
    """Return the samples of all workers, which take turns."""
    samples: dict[str, list[float]] = {name: [] for name in workers}
    for _ in range(ROUNDS):
        for name, worker in workers.items():
            samples[name] += ask(worker, *request)
    return samples


def start(variables: dict[str, str]) -> subprocess.Popen[str]:
    """Start a worker with these variables."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_"))}
    return subprocess.Popen(
        [sys.executable, __file__, "--worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=ours | variables,
    )


def ask(worker: subprocess.Popen[str], *request: Any) -> Any:
    """Return a worker's response; its threads sleep when this returns."""
    assert worker.stdin is not None and worker.stdout is not None
    print(json.dumps(request), file=worker.stdin, flush=True)
    return json.loads(worker.stdout.readline())


def serve() -> None:
    """Serve requests until the input ends."""
    import torch

    torch.set_grad_enabled(False)
    worker = Worker()
    for line in sys.stdin:
        name, *values = json.loads(line)
        answer = getattr(worker, name)(*values)
        until_asleep()
        print(json.dumps(answer), flush=True)


class Worker:
    """Measures with the variables of its process; each method serves the request of its name."""

    def __init__(self) -> None:
        self._references: dict[int, Any] = {}
        self._pool = ThreadPoolExecutor(1)

    def environment(self) -> dict[str, Any]:
        """Return torch's version and number of threads."""
        import torch

        return {"torch": torch.__version__, "threads": torch.get_num_threads()}

    def runs_on(self) -> float:
        """Return the milliseconds that threads run on after a parallel region."""
        import torch

        torch.rand(1 << 22).mul_(2)
        return until_asleep() * 1e3

    def reference(self, number: int) -> list[float]:
        """Return samples of a problem's reference, taken as the evaluator takes them."""
        from kernelwright.evaluators.correctness.inputs import Feed
        from kernelwright.evaluators.timing.clock import Clock, bind_call
        from kernelwright.evaluators.workers.modules import ProblemModule
        from kernelwright.evaluators.workers.problem_file import problem_options

        if number not in self._references:
            name, workload = PROBLEMS[number]
            problem = TorchProblem.of(find_problem(name).read()).at(workload)
            folder = Path("/tmp") / f"kernelwright-spinning-{os.getpid()}-{number}"
            folder.mkdir(exist_ok=True)
            options = problem_options(problem, folder)
            module = ProblemModule(Path(options["problem"]), options["sizes"], "cpu")
            feed = Feed(module)
            feed.restart(0)
            self._references[number] = feed, module.model(0)
        feed, model = self._references[number]
        taken = Clock("cpu").sample(lambda: (0, bind_call(model, feed.next()[1])), SAMPLES)
        return taken.times_ms

    def candidate(self) -> dict[str, Any]:
        """Return samples of the same work by one and by two threads, after torch wrote the inputs; and cores busy."""
        import torch

        from kernelwright.evaluators.timing.clock import Clock

        base = torch.rand(HASHED_BYTES // 4)
        inputs = base.clone()
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
                torch.mul(base, 1.01, out=inputs)
                return 0, call

            return next_call

        clock = Clock("cpu")
        alone = clock.sample(after_inputs(serial), SAMPLES)
        until_asleep()
        both = clock.sample(after_inputs(threaded), SAMPLES)
        return {"serial": alone.times_ms, "threaded": both.times_ms, "cores": alone.cores}


def until_asleep() -> float:
    """Wait until no other thread of this process runs; return the seconds."""
    begin = time.perf_counter()
    ours = str(os.getpid())
    while time.perf_counter() - begin < 1.0 and any(
        (task / "stat").read_text().rpartition(")")[2].split()[0] == "R"
        for task in Path("/proc/self/task").iterdir()
        if task.name != ours
    ):
        pass
    return time.perf_counter() - begin


if __name__ == "__main__":
    main()
