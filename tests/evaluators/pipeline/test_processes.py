"""What is started once for an evaluator, however many searches it serves."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from kernelwright.core import Kernel, PythonKernel
from kernelwright.corpus import find_problem, list_kernels
from kernelwright.evaluators.pipeline.fork_servers import COMPILER_NICE
from kernelwright.evaluators.pipeline.processes import Processes
from kernelwright.evaluators.pipeline.servers import COMPILERS_IMPORT
from kernelwright.evaluators.workers.server_client import ForkServer

from ...conftest import FAST
from ...surroundings import WARM_SERVER
from ..compilation.test_fake_device import H200, SMALL

MATMUL = next(file for file in list_kernels("triton") if file.problem == "level1/1_1").read().bind(SMALL)
PROBLEM = find_problem("level1/1_1").read()


@pytest.fixture
def on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[Processes]:
    """Those of a GPU that is not there: what the reference's worker says of it is made up."""
    processes = Processes("cuda:0", FAST.limits, FAST.sandbox)
    told = SimpleNamespace(properties=H200)
    monkeypatch.setattr(processes, "reference_client", lambda problem: told)
    yield processes
    processes.close()


def test_compilers_of_a_gpu_are_forked_from_one_server(on_a_gpu: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(WARM_SERVER)  # of what is forked from one, /proc shows the start of that
    servers: list[tuple[ForkServer, int]] = []
    fork = ForkServer.fork

    def forked(self: ForkServer, *args: object, **options: object) -> object:
        worker = fork(self, *args, **options)  # type: ignore[arg-type]
        servers.append((self, worker.pid))
        return worker

    monkeypatch.setattr(ForkServer, "fork", forked)
    for size in (64, 128):
        with on_a_gpu.compilers(PROBLEM.resized(str(size), {"N": size}), on_a_gpu.cache(MATMUL), 1) as pool:
            compiled = pool.submit(MATMUL.source).result(timeout=200)
            assert compiled.ok, compiled.message
    ((server, _), *others) = servers
    assert len({pid for _, pid in servers}) == 2 and {other for other, _ in others} == {server}
    assert os.getpriority(os.PRIO_PROCESS, server.pid) == COMPILER_NICE
    started = Path(f"/proc/{server.pid}")
    assert COMPILERS_IMPORT in (started / "cmdline").read_text().split("\0")
    assert "CUDA_VISIBLE_DEVICES=" in (started / "environ").read_text().split("\0")
    os.kill(server.pid, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while server.alive:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    with on_a_gpu.compilers(PROBLEM, on_a_gpu.cache(MATMUL), 1) as pool:
        assert pool.submit(MATMUL.source).result(timeout=200).ok
    assert servers[-1][0] is not server


def test_a_kernel_has_one_cache_whatever_its_constants(on_a_gpu: Processes) -> None:
    other: Kernel = PythonKernel.parse(MATMUL.source + "\nMORE = 1\n")
    path = on_a_gpu.cache(MATMUL)
    assert on_a_gpu.cache(MATMUL.bind({"BLOCK_M": 64})) == path != on_a_gpu.cache(other)


def test_what_other_sizes_need_is_compiled_into_the_same_cache(on_a_gpu: Processes) -> None:
    cache, others = on_a_gpu.cache(MATMUL), {"N": 100}  # no multiple of 16, which Triton's code depends on

    def binaries() -> int:
        return len(list(cache.rglob("*.cubin")))

    counts = []
    for problem, sizes in ((PROBLEM, None), (PROBLEM, others), (PROBLEM.resized("100", others), None)):
        with on_a_gpu.compilers(problem, cache, 1, sizes) as pool:
            assert pool.submit(MATMUL.source).result(timeout=200).ok
        counts.append(binaries())
    assert counts == [1, 2, 2]
