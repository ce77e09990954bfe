"""The processes behind an evaluator: the warm server, the judge, and workers for candidates and compilers."""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ..core import DeviceError, Kernel, Problem
from .compiling import CompilePool
from .judging import Judge, problem_options
from .limits import Limits
from .worker import ForkServer, Worker

ENVIRONMENT = {
    "TILELANG_PRINT_ON_COMPILATION": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
    # Counting devices must not initialize CUDA in the server: its forks could not use it any more.
    "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
    # Keep freed memory for the next call, in candidate and reference alike. By default malloc gives large
    # blocks back or not depending on what was freed before, and page faults make the same call five times slower.
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(16 << 30),
}
"""Of the warm server and all its workers."""

COURTESY = 10
"""How much less of the processor a compiler gets than what is being measured (`nice`)."""


class Processes:
    """Starts what is needed when it is needed, in a temporary folder that `close` removes."""

    def __init__(self, device: str, limits: Limits) -> None:
        self.device = device
        self.folder = Path(tempfile.mkdtemp(prefix="kernelwright-"))
        self._limits = limits
        self._serial = itertools.count()
        self._server: ForkServer | None = None
        self._closed = False
        self._judge: Judge | None = None

    @property
    def server(self) -> ForkServer:
        """The warm server, started when first needed, and again when it is gone."""
        if self._server is not None and not self._server.alive:
            self.forget_judge()
            self._server.close()
            self._server = None
        if self._server is None:
            if self._closed:
                raise DeviceError("the evaluator is closed")
            environment = dict(ENVIRONMENT)
            if self.device == "cpu":
                environment["TRITON_INTERPRET"] = "1"
            self._server = ForkServer(["torch", "triton", "tilelang"], environment)
        return self._server

    def judge(self, problem: Problem) -> Judge:
        """The reference's process for a problem; the last one is kept, since most calls repeat it."""
        if self._judge is None or self._judge.problem != problem or not self._judge.alive:
            self.forget_judge()
            options = problem_options(problem, self.folder)
            worker = self._fork("judge", {**options, "tolerances": dict(problem.tolerances)}, self.server)
            self._judge = Judge(problem, worker)
        return self._judge

    def forget_judge(self) -> None:
        """End the reference's process, and so free its memory."""
        if self._judge is not None:
            self._judge.close()
            self._judge = None

    def cache(self, kernel: Kernel) -> Path:
        """The folder for what compiling a kernel leaves: finalists are not compiled a second time."""
        folder = self.folder / f"cache-{kernel.digest}"
        folder.mkdir(exist_ok=True)
        return folder

    def candidate(self, problem: Problem, cache: Path | None = None) -> Callable[[], Worker]:
        """What starts workers for candidates; they share `cache`, or have one each."""
        options = {**problem_options(problem, self.folder), "cache": str(cache) if cache else None}
        confined = {"memory_gib": self._limits.memory_gib, "file_gib": self._limits.file_gib}
        # The server of now, here and below: starting another would end the judge, which may be in use.
        return partial(self._fork, "candidate", {**options, **confined}, self.server)

    def compilers(self, problem: Problem, cache: Path, count: int) -> CompilePool:
        """Workers that compile into `cache`."""
        properties = self.judge(problem).call("properties")["properties"]
        options = {**problem_options(problem, self.folder), "cache": str(cache), "properties": properties}
        confined = {"memory_gib": self._limits.memory_gib, "file_gib": self._limits.file_gib, "nice": COURTESY}
        start = partial(self._fork, "compiler", {**options, **confined}, self.server)
        return CompilePool(start, count, self._limits.compile_s)

    def _fork(self, role: str, options: Mapping[str, Any], server: ForkServer) -> Worker:
        """A fresh worker in a folder of its own."""
        kind, _, number = self.device.partition(":")
        visible = _visible_gpu(int(number or 0)) if kind == "cuda" else None
        return server.fork(role, self.new_folder(role), device=kind, visible=visible, **options)

    def new_folder(self, name: str) -> Path:
        """A folder of its own, for who removes it when it is done; `close` removes what is left."""
        folder = self.folder / f"{name}-{next(self._serial)}"
        folder.mkdir()
        return folder

    def close(self) -> None:
        """End all processes and remove their folders."""
        self._closed = True
        self.forget_judge()
        if self._server is not None:
            self._server.close()
            self._server = None
        shutil.rmtree(self.folder, ignore_errors=True)


def cores() -> int:
    """Processor cores that this process may use."""
    return len(os.sched_getaffinity(0))


def _visible_gpu(number: int) -> str:
    """How to name one GPU in CUDA_VISIBLE_DEVICES, by its number among those that this process sees.

    A worker sees no other: to Triton the first GPU is the current one, wherever the tensors are.
    """
    seen = [name.strip() for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name.strip()]
    return seen[number] if number < len(seen) else str(number)
