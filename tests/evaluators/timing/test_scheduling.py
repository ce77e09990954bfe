"""A process gets its cores back."""

from __future__ import annotations

import os

import pytest
from kernelwright.evaluators.timing.priority import Scheduling


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_cores_are_given_back() -> None:
    before = os.sched_getaffinity(0)
    scheduling = Scheduling()
    try:
        os.sched_setaffinity(0, {min(before)})
        scheduling.restore()
        assert os.sched_getaffinity(0) == before
    finally:
        os.sched_setaffinity(0, before)
