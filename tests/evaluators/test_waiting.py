"""Waiting for the device counts against no time limit."""

from __future__ import annotations

import threading
import time

from kernelwright.core import Config, Kernel, TorchProblem
from kernelwright.evaluators.local import LocalEvaluator
from kernelwright.evaluators.waiting import WorkingClock
from kernelwright.evaluators.workers.device_lock import DeviceLock

HELD_S = 1.0


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_clock_stands_still_while_all_wait_and_nobody_has_the_device() -> None:
    below = Clock()
    clock = WorkingClock(below)
    below.now = 5.0
    clock.changed(waiting=1)
    below.now = 25.0
    assert clock() == 5.0
    clock.changed(waiting=-1, holding=1)
    below.now = 30.0
    assert clock() == 10.0
    # Another lane of the command waits for this one: that is its own work.
    clock.changed(waiting=1)
    below.now = 37.0
    assert clock() == 17.0
    clock.changed(holding=-1)
    below.now = 40.0
    assert clock() == 17.0
    clock.changed(waiting=-1)
    assert clock() == 17.0


def test_an_evaluator_that_waits_for_another_command(
    evaluator: LocalEvaluator, scale_problem: TorchProblem, scale_kernel: Kernel
) -> None:
    list(evaluator.evaluate(scale_problem, scale_kernel, [Config()]))  # what starts once has started
    held = threading.Event()

    def other() -> None:
        with DeviceLock("cpu").held():
            held.set()
            time.sleep(HELD_S)

    thread = threading.Thread(target=other)
    thread.start()
    held.wait()
    began, worked = time.monotonic(), evaluator.clock()
    (found,) = evaluator.evaluate(scale_problem, scale_kernel, [Config()])
    thread.join()
    assert found.ok
    waited = (time.monotonic() - began) - (evaluator.clock() - worked)
    assert 0.3 * HELD_S < waited <= HELD_S + 0.1
    assert evaluator.beside().clock is evaluator.clock
