"""Threads of a parallel step: each its own core where they need all."""

from __future__ import annotations

import os
import threading

import pytest
from kernelwright.evaluators.replay.threads import Threads


def cores_of(most: int) -> list[set[int]]:
    """The cores that each thing may run on, while all run at the same time."""
    found: list[set[int]] = [set()] * most
    together = threading.Barrier(most)

    def note(number: int) -> None:
        together.wait(10)
        found[number] = os.sched_getaffinity(0)

    Threads(most).run([lambda number=number: note(number) for number in range(most)])  # type: ignore[misc]
    return found


def test_each_stays_on_a_core_of_its_own_where_all_are_needed() -> None:
    cores = os.sched_getaffinity(0)
    if len(cores) < 2:
        pytest.skip("needs two cores")
    assert sorted(cores_of(len(cores)), key=min) == [{core} for core in sorted(cores)]
    assert os.sched_getaffinity(0) == cores


def test_others_are_left_to_the_system() -> None:
    cores = os.sched_getaffinity(0)
    assert cores_of(1) == [cores]


def test_what_the_first_raises_is_raised_and_cores_are_given_back() -> None:
    cores = os.sched_getaffinity(0)
    with pytest.raises(ZeroDivisionError):
        Threads(len(cores)).run([lambda: 1 // 0] * len(cores))  # type: ignore[list-item]
    assert os.sched_getaffinity(0) == cores
