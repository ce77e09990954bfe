"""What a sweep starts: its servers and its reference once, and each search's own processes as forks of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kernelwright.core import Budget, PythonKernel, TorchProblem
from kernelwright.core.environment import cores
from kernelwright.corpus import find_problem
from kernelwright.evaluators.settings import Sampling, SearchSettings
from kernelwright.evaluators.workers.client import Worker
from kernelwright.evaluators.workers.server_client import ForkServer
from kernelwright.tuners.gemm.device import H200_LIMITS
from kernelwright.tuners.gemm.shapes import Shape
from kernelwright.tuners.gemm.sweep import Sweep
from kernelwright.tuners.gemm.task import Task

from ...conftest import FAST, Unguarded
from .test_sweep import Log

SOURCE = """
import tilelang.cpu.language as T
import torch
from torch import nn

BLOCK_SIZE_M = 16
BLOCK_SIZE_N = 16
BLOCK_SIZE_K = 16
SEARCH_SPACE = {"BLOCK_SIZE_M": [16, 32], "BLOCK_SIZE_N": [16, 32], "BLOCK_SIZE_K": [16, 32]}


class ModelNew(nn.Module):
    def forward(self, a, b):
        return a @ b * (BLOCK_SIZE_M / BLOCK_SIZE_M) ** (BLOCK_SIZE_N * BLOCK_SIZE_K)
"""
SHAPES = [Shape(64, 32, m) for m in (16, 32)]
TRIALS, COMPILERS = 4, 2


class Started:
    """The servers and the workers of each role that were started."""

    def __init__(self) -> None:
        self.servers = 0
        self.workers: dict[str, list[Worker]] = {}


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Started:
    found, begin, fork = Started(), ForkServer.__init__, ForkServer.fork

    def beginning(self: ForkServer, *args: Any, **options: Any) -> None:
        found.servers += 1
        begin(self, *args, **options)

    def forking(self: ForkServer, role: str, *args: Any, **options: Any) -> Worker:
        worker = fork(self, role, *args, **options)
        found.workers.setdefault(role.partition(".")[0], []).append(worker)
        return worker

    monkeypatch.setattr(ForkServer, "__init__", beginning)
    monkeypatch.setattr(ForkServer, "fork", forking)
    return found


def test_a_sweep_starts_its_servers_and_its_reference_once(tmp_path: Path, started: Started) -> None:
    """And searches and finals get processes of their own at each shape."""
    problem = find_problem("gemm/gemm").read()

    def at(shape: Shape) -> TorchProblem:
        return problem.resized(str(shape), {"M": shape.m, "N": shape.n, "K": shape.k, "DTYPE": "float32"})

    budget = Budget(trials=TRIALS)
    task = Task(PythonKernel.parse(SOURCE), at, H200_LIMITS, "float32", 4, tuner="random", budget=budget)
    sampling = Sampling(seconds=0.03, min_samples=5, max_samples=20, chunk_s=0.002, heeds_load=False)
    settings = replace(FAST, search=SearchSettings(compilers=COMPILERS, window=COMPILERS, sampling=sampling))
    with Unguarded(settings=settings) as evaluator:
        results = Sweep(task, [evaluator], tmp_path, Log()).run(SHAPES)
        assert [(result.error, result.trials) for result in results] == [("", TRIALS)] * len(SHAPES)
        (reference,) = started.workers["reference"]
        assert reference.alive
        assert not any(worker.alive for role in ("candidate", "compilation") for worker in started.workers[role])
    assert started.servers == 1
    assert len(started.workers["candidate"]) == 2 * len(SHAPES)
    assert len({worker.pid for worker in started.workers["candidate"]}) == 2 * len(SHAPES)
    # As many as the settings say for a search, and at most one for each of its finalists.
    assert len(started.workers["compilation"]) <= (COMPILERS + cores()) * len(SHAPES)
