"""Threads that spin: nothing is timed beside them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
from kernelwright.evaluators.pipeline.interleaved_timer import InterleavedTimer
from kernelwright.evaluators.settings import Sampling, Settings
from kernelwright.evaluators.timing.threads import is_running, wait_until_asleep
from kernelwright.evaluators.workers.channel import Message

from ...fakes import PROBLEM

SPINS = """
import sys, torch
assert torch.get_num_threads() > 1
x = torch.ones(1 << 20)
for line in sys.stdin:
    x.mul_(2)
    print("done", flush=True)
"""
"""Wakes torch's pool at each line."""

SERIAL = """
import os
from pathlib import Path
import torch
from kernelwright.evaluators.timing.timed_calls import TimedCalls

class Problem:
    device = "cpu"
    def inputs(self, seed):
        return [torch.full((1 << 20,), 1.0 + seed) * 2]

running = []

def model(x):
    tasks = [task for task in Path("/proc/self/task").iterdir() if task.name != str(os.getpid())]
    running.append(sum((task / "stat").read_text().rpartition(")")[2].split()[0] == "R" for task in tasks))
    return sum(range(200_000))

timed = TimedCalls("cpu", Problem())
threads = torch.get_num_threads()
taken = timed.time(0, model, seed=1, samples=5, graph=False)
assert torch.get_num_threads() == threads
print(max(running), taken["cores"])
"""

several_cores = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core: torch has no pool of threads")


def python(program: str, **variables: str) -> subprocess.Popen[str]:
    """A process in which libgomp spins as these variables say."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_"))}
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-c", program], stdin=pipe, stdout=pipe, text=True, env=ours | variables)


@contextmanager
def pool(**variables: str) -> Iterator[subprocess.Popen[str]]:
    """A process whose pool is woken by `wake`."""
    with python(SPINS, **variables) as process:
        try:
            wake(process)
            yield process
        finally:
            process.kill()


def wake(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None and process.stdout is not None
    print(file=process.stdin, flush=True)
    assert process.stdout.readline() == "done\n"


@several_cores
def test_a_serial_call_has_no_spinning_threads_beside_it() -> None:
    """Neither drawing nor writing inputs wakes torch's pool, which here would spin until the process ends."""
    with python(SERIAL, OMP_WAIT_POLICY="active") as process:
        output, _ = process.communicate(timeout=60)
    running, cores = output.split()
    assert int(running) == 0
    assert float(cores) <= 1.1


@several_cores
def test_waiting_ends_when_threads_sleep_or_time_is_up() -> None:
    with pool(OMP_WAIT_POLICY="passive") as sleeps, pool(OMP_WAIT_POLICY="active") as spins:
        assert wait_until_asleep([sleeps.pid], seconds=10)
        assert is_running(spins.pid)
        assert not wait_until_asleep([sleeps.pid, spins.pid], seconds=0.05)
    assert not is_running(spins.pid)
    assert wait_until_asleep([spins.pid, sleeps.pid])


@several_cores
def test_no_chunk_starts_while_the_other_side_spins() -> None:
    # As long as libgomp spins by default. Where others use the cores, that takes as many times longer.
    with pool(GOMP_SPINCOUNT="300000") as reference:
        ran: list[str] = []
        seeds = count()

        def reference_timer(samples: int) -> Message:
            ran.append("reference")
            wake(reference)
            return {"samples_ms": [1.0] * samples, "method": "made up"}

        def candidate_timer(samples: int) -> Message:
            ran.append("candidate" if not is_running(reference.pid) else "candidate beside spinning threads")
            return {"samples_ms": [1.0] * samples, "method": "made up"}

        client: Any = SimpleNamespace(
            pid=reference.pid,
            problem=PROBLEM,
            environment={"device": "test"},
            arithmetic={"default_is_reference": True},
            timer=lambda seeds, graph: reference_timer,
        )
        processes: Any = SimpleNamespace(server_pids=())
        timer = InterleavedTimer("cpu", Settings(), processes, None)
        sampling = Sampling(max_samples=8, quiet_timeout_s=0.0)
        found = timer.time(client, [candidate_timer], os.getpid(), lambda: iter(seeds), sampling)
    assert found.reference is not None
    assert set(ran) == {"reference", "candidate"}
