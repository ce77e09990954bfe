"""The evaluator of this machine: its CPU, or its CUDA GPU.

Three processes take part, all forked from a warm server: the candidate's worker runs the kernel and
nothing else; the judge's worker runs the reference and compares; this process carries seeds, file names
and verdicts between them and computes every statistic itself.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import random
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from ..core import (
    CHECKED_NOT_TIMED,
    Ceilings,
    Config,
    Evaluation,
    Kernel,
    KernelError,
    Language,
    Problem,
    Profile,
    Status,
    Target,
)
from .bench import Bench, Failure
from .contention import LoadMeter, tolerated_cores
from .judging import Judge, problem_options
from .limits import Settings
from .sampling import take_turns
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

CROWDED = 2
"""After so many timings in a row that others disturbed, waiting for quiet is given up."""


class LocalEvaluator:
    """Evaluates on `device`, 'cpu' or 'cuda' or 'cuda:1'.

    `memory` is a folder for what is measured once per device (its ceilings). Seeds come from `rng`,
    by default from the system's entropy, and are written down in the evaluations.
    """

    def __init__(
        self,
        device: str = "cpu",
        settings: Settings | None = None,
        memory: Path | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self.device = device
        self.settings = settings or Settings()
        self._memory = memory
        self._rng = rng or random.SystemRandom()
        self._folder = Path(tempfile.mkdtemp(prefix="kernelwright-"))
        self._serial = itertools.count()
        self._meter = LoadMeter()
        self._crowded = 0
        self._server: ForkServer | None = None
        self._judge: Judge | None = None
        self._bench: Bench | None = None
        self._benched: Problem | None = None

    def evaluate(self, problem: Problem, kernel: Kernel, configs: Sequence[Config]) -> Iterator[Evaluation]:
        """One evaluation per config, in order; see `core.Evaluator`."""
        if (kernel.target is Target.CPU) != (self.device == "cpu") and kernel.language is not Language.TRITON:
            raise KernelError(f"{kernel.name} is written for {kernel.target}; it cannot run on {self.device}")
        self.server.require(kernel.language)
        judge = self.judge(problem)
        for config in configs:
            evaluation = self._evaluate(judge, self._bench_for(problem, kernel, config), config)
            if not config:
                self.forget_bench()
            yield evaluation

    def _bench_for(self, problem: Problem, kernel: Kernel, config: Config) -> Bench:
        """The bench of the last call when a search goes on with the same kernel, else a new one.

        A kernel with nothing to bind always gets a fresh process: so is a winner checked for the last time.
        """
        if self._bench and config and (self._benched, self._bench.kernel) == (problem, kernel):
            return self._bench
        self.forget_bench()
        options = self._candidate_options(problem)
        self._bench = Bench(kernel, self.settings, lambda: self.worker("candidate", options))
        self._benched = problem
        return self._bench

    def forget_bench(self) -> None:
        """End the candidate's process."""
        if self._bench is not None:
            self._bench.close()
            self._bench = None

    def profile(self, problem: Problem) -> Profile:
        """Counted work of the reference and measured ceilings of the device."""
        judge = self.judge(problem)
        counted = judge.call("count")
        return Profile(
            flops=counted["flops"],
            matrix_flops=counted["matrix_flops"],
            min_bytes=counted["min_bytes"],
            eager_bytes=counted["eager_bytes"],
            operators=tuple(counted["operators"]),
            ceilings=self._ceilings(judge),
            device=judge.environment["device"],
        )

    def environment(self, problem: Problem) -> dict[str, str]:
        """Device and versions, as every evaluation records them."""
        return dict(self.judge(problem).environment)

    def judge(self, problem: Problem) -> Judge:
        """The reference's process for a problem; the last one is kept, since most calls repeat it."""
        if self._judge is None or self._judge.problem != problem or not self._judge.alive:
            self.forget_judge()
            options = problem_options(problem, self._folder)
            worker = self.worker("judge", {**options, "tolerances": dict(problem.tolerances)})
            self._judge = Judge(problem, worker)
        return self._judge

    def forget_judge(self) -> None:
        """End the reference's process, and so free its memory."""
        if self._judge is not None:
            self._judge.close()
            self._judge = None

    def _evaluate(self, judge: Judge, bench: Bench, config: Config) -> Evaluation:
        seeds = [self._rng.randrange(2**31) for _ in range(self.settings.trials)]
        verdict: dict[str, Any] = {
            "status": Status.OK,
            "kernel_digest": bench.kernel.digest,
            "config": dict(config),
            "environment": judge.environment,
        }
        try:
            verdict["correctness"], verdict["compile_s"] = bench.check(judge, config, seeds)
            if self.device == "cpu" and bench.kernel.language is Language.TRITON:
                verdict["message"] = CHECKED_NOT_TIMED
            else:
                verdict |= self._time(judge, bench)
        except Failure as failure:
            verdict |= {"status": failure.status, "message": failure.message, "log": bench.log}
            if failure.correctness is not None:
                verdict["correctness"] = failure.correctness
        return Evaluation(**verdict)

    def _time(self, judge: Judge, bench: Bench) -> dict[str, Any]:
        """Time both in turn; on a CPU that others use, wait for them and try once more, then say so."""
        sampling = self.settings.sampling
        on_cpu = self.device == "cpu"
        patience = sampling.patience_s if on_cpu and self._crowded < CROWDED else 0.0
        while True:
            self._meter.start((self.server.pid, judge.pid, bench.worker.pid))
            measurement, reference, cores = take_turns(bench.time, judge.time, sampling)
            foreign = self._meter.foreign_cores() if on_cpu else None
            quiet = foreign is None or foreign < tolerated_cores()
            if quiet or not (patience and self._meter.wait_until_quiet(patience)):
                break
            patience = 0.0
        self._crowded = 0 if quiet else self._crowded + 1
        return {
            "measurement": measurement,
            "reference": reference,
            "cores_used": cores if on_cpu else None,
            "contention": None if quiet else foreign,
        }

    def _ceilings(self, judge: Judge) -> Ceilings:
        key = f"{judge.environment['device']}, torch {judge.environment['torch']}"
        path = self._memory / "ceilings.json" if self._memory else None
        known: dict[str, Any] = {}
        if path is not None:
            with contextlib.suppress(OSError, ValueError):
                known = json.loads(path.read_text())
        if key not in known:
            self._meter.start((self.server.pid, judge.pid))
            answer = judge.call("ceilings")
            known[key] = {name: answer[name] for name in Ceilings.model_fields}
            quiet = self.device != "cpu" or (self._meter.foreign_cores() or 0.0) < tolerated_cores()
            if path is not None and quiet:
                with contextlib.suppress(OSError):
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_text(json.dumps(known, indent=1))
        return Ceilings(**known[key])

    def worker(self, role: str, options: Mapping[str, Any]) -> Worker:
        """A fresh worker in a folder of its own."""
        folder = self._folder / f"{role}-{next(self._serial)}"
        folder.mkdir()
        return self.server.fork(role, folder, device=self.device, **options)

    def _candidate_options(self, problem: Problem) -> dict[str, Any]:
        limits = self.settings.limits
        confined = {"memory_gib": limits.memory_gib, "file_gib": limits.file_gib}
        return {**problem_options(problem, self._folder), **confined}

    @property
    def server(self) -> ForkServer:
        """The warm server, started when first needed."""
        if self._server is not None and not self._server.alive:
            self.forget_bench()
            self.forget_judge()
            self._server.close()
            self._server = None
        if self._server is None:
            environment = dict(ENVIRONMENT)
            if self.device == "cpu":
                environment["TRITON_INTERPRET"] = "1"
            self._server = ForkServer(["torch", "triton", "tilelang"], environment)
        return self._server

    def close(self) -> None:
        """End all processes and remove their folders."""
        self.forget_bench()
        self.forget_judge()
        if self._server is not None:
            self._server.close()
            self._server = None
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> LocalEvaluator:
        return self

    def __exit__(self, *_: tuple[type[BaseException], BaseException, TracebackType]) -> None:
        self.close()
