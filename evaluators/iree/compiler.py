"""IREE's compiler: several workers at once, each with a time limit, and a cache of what was compiled before."""

from __future__ import annotations

import errno
import hashlib
import re
import signal
import threading
import time
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ...core import DeviceError
from ...core.files import write_whole
from ..compilation.pool import CompileResult, CompileStatus
from ..sandbox.untrusted_files import read_untrusted_file
from ..settings import Sandbox
from ..workers.client import Worker, WorkerDiedError, WorkerTimeoutError, describe_exit
from ..workers.shortages import ATTEMPTS, refuses_to_write
from .compile_worker import LOG_BYTES
from .processes import IreeProcesses
from .target import COMPILER, IreeTarget, find_compiler, installed

MODULE_BYTES = 2 << 30
"""A compiled module that is larger is none: it would fill this process's memory."""
MODULE = "module.vmfb"
SIMPLEST = "func.func @nothing(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }"
"""A module that every compiler takes, for every target."""
NOTHING_COMPILES = "IREE's compiler refuses the simplest module as well"
_ERROR = re.compile(r"(?:[^\s:]+:(\d+):\d+: )?error: (.*)")


@dataclass(frozen=True)
class CompiledModule(CompileResult):
    """The outcome for one module."""

    path: Path | None = None
    """The compiled module, where there is one."""
    log: str = ""
    """Output of the compiler."""


class _CompilerAnswer(BaseModel):
    """Response of the worker that ran a compiler on an untrusted module."""

    model_config = ConfigDict(extra="forbid")

    code: int
    said: str = Field(max_length=LOG_BYTES)


class IreeCompiler:
    """Compiles modules for one target in workers of `processes`, `count` at once; `seconds` limit each.

    Modules stay in `folder` by their content: text, options, the compiler's version, and for 'host' the processor. So
    do refusals. `release` is the version whose modules are taken, by default the one that is installed; without a
    compiler those of the folder are all there is.
    """

    def __init__(
        self,
        target: IreeTarget,
        processes: IreeProcesses,
        folder: Path,
        count: int = 1,
        seconds: float = 120.0,
        release: str = "",
    ) -> None:
        self.target = target
        self._processes = processes
        self._folder = folder
        self._seconds = seconds
        self._release = release or installed(COMPILER)
        self._threads = ThreadPoolExecutor(count, "iree-compile")
        # Several at once use the cores without threads of their own, which have waited for each other without end.
        self._flags = ["--mlir-disable-threading"] if count > 1 else []
        self._running: set[Worker] = set()
        self._lock = threading.Lock()
        self._closed = False
        self._known: dict[str, Future[CompiledModule]] = {}

    def submit(self, source: str, spec: str = "") -> Future[CompiledModule]:
        """Compile a module's text, with a tuning spec's where there is one; equal texts are compiled once."""
        key = self._key(source, spec)
        with self._lock:
            if key not in self._known:
                self._known[key] = self._threads.submit(self._compile, source, key, spec)
            return self._known[key]

    def _key(self, source: str, spec: str) -> str:
        parts = [source, *self.target.measured_flags, spec, self.target.host_key]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]

    def _compile(self, source: str, key: str, spec: str) -> CompiledModule:
        path = self._folder / (self._release or "none") / f"{key}.vmfb"
        refused = self._refused(path)
        if path.exists():
            return CompiledModule(CompileStatus.COMPILED, digest=_digest(path), path=path)
        if refused.exists():
            log = refused.read_text()
            return CompiledModule(CompileStatus.FAILED, first_error(log), log=log)
        for attempt in range(1, ATTEMPTS + 1):
            module = self._in_worker(source, spec, path)
            if module.status is CompileStatus.FAILED:
                module = self._refusal(module, path)
            if module.status is not CompileStatus.LOST or attempt == ATTEMPTS:
                break
        return module

    def _in_worker(self, source: str, spec: str, path: Path | None) -> CompiledModule:
        program = find_compiler()
        worker = self._start()
        try:
            return self._outcome(worker, self._command(program, worker, spec), source, path)
        finally:
            with self._lock:
                self._running.discard(worker)
            worker.discard()

    def _refusal(self, module: CompiledModule, path: Path) -> CompiledModule:
        """Return a refusal, and keep it; where the compiler refuses the simplest module too, it says nothing of this.

        So a full disk, a limit, or a missing folder for temporary files is distinguished from an error in a module.
        """
        known = self._in_worker(SIMPLEST, "", None)
        if known.status is not CompileStatus.COMPILED:
            return replace(module, status=CompileStatus.LOST, message=f"{NOTHING_COMPILES}: {known.message}")
        write_whole(self._refused(path), module.log)
        return module

    def _outcome(self, worker: Worker, command: list[str], source: str, path: Path | None) -> CompiledModule:
        """Compile a text in a worker; a module is stored under `path`, where it is given."""
        text = worker.inbox / "source.mlir"
        text.write_text(source)
        started = time.monotonic()
        try:
            told = worker.call(self._seconds, op="compile", command=command, source=str(text))
            answer = _CompilerAnswer.model_validate(told)
        except WorkerTimeoutError:
            why = f"IREE's compiler took longer than {self._seconds:g} s"
            return CompiledModule(CompileStatus.TIMEOUT, why, seconds=time.monotonic() - started)
        except WorkerDiedError as died:
            if self._closed:  # ended by `close`, not by itself
                raise CancelledError from None
            status = CompileStatus.LOST if died.killed else CompileStatus.CRASHED
            return CompiledModule(status, died.cause or f"the process of IREE's compiler {died}", log=worker.log)
        except ValidationError:
            return CompiledModule(CompileStatus.CRASHED, "the process of IREE's compiler sent no proper answer")
        seconds, log = time.monotonic() - started, answer.said
        if answer.code < 0:
            why = f"IREE's compiler was {describe_exit(answer.code)}: {first_error(log)}"
            status = CompileStatus.LOST if answer.code == -signal.SIGKILL else CompileStatus.CRASHED
            return CompiledModule(status, why, seconds=seconds, log=log)
        if answer.code:
            return CompiledModule(CompileStatus.FAILED, first_error(log), seconds=seconds, log=log)
        if path is None:
            return CompiledModule(CompileStatus.COMPILED, seconds=seconds, log=log)
        worker.end()  # so that nothing writes what is now read
        try:
            content = _read(worker.folder / MODULE)
        except OSError as error:
            why = f"IREE's compiler left no module: {error.strerror}"
            full = refuses_to_write(worker.folder.parent) is not None
            status = CompileStatus.LOST if full else CompileStatus.CRASHED
            return CompiledModule(status, why, seconds=seconds, log=log)
        write_whole(path, content)
        return CompiledModule(CompileStatus.COMPILED, digest=_digest(path), seconds=seconds, path=path, log=log)

    def _refused(self, path: Path) -> Path:
        """Return where a refusal is kept: what a sandbox hides may have been the reason."""
        return path.with_suffix(".txt" if self._processes.sandbox_used == Sandbox.NONE else ".contained.txt")

    def _start(self) -> Worker:
        worker = self._processes.compiler()
        with self._lock:
            self._running.add(worker)
            closed = self._closed
        if closed:
            worker.discard()
            raise CancelledError
        return worker

    def _command(self, program: Path, worker: Worker, spec: str) -> list[str]:
        """Return the compiler's command line; writes the tuning spec where the worker can read it."""
        flags = [*self.target.measured_flags, *self._flags]
        if spec:
            path = worker.inbox / "spec.mlir"
            path.write_text(spec)
            flags.append(f"--iree-codegen-tuning-spec-path={path}")
        return [str(program), "-", *flags, "-o", str(worker.folder / MODULE)]

    def close(self) -> None:
        """End what compiles, and forget what waits."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            self._closed = True
            running = list(self._running)
        for worker in running:
            worker.end()
        self._threads.shutdown()


def _read(path: Path) -> bytes:
    """Return what a worker wrote; raises `OSError` for what is not a plain file, or no module's size."""
    if (size := path.lstat().st_size) > MODULE_BYTES:
        raise OSError(errno.EFBIG, f"{size >> 20} MiB are too many")
    return bytes(read_untrusted_file(path, size))


def first_error(log: str) -> str:
    """Return the compiler's first error with its line in the module, or the last line where there is none."""
    for line in log.splitlines():
        if (found := _ERROR.fullmatch(line)) is not None:
            return f"line {found[1]}: {found[2]}" if found[1] else found[2]
    return next((line.strip() for line in reversed(log.splitlines()) if line.strip()), "it said nothing")


def require(module: CompiledModule, what: str, target: IreeTarget) -> Path:
    """Return the path of a module that must compile; raises `DeviceError` where the target is the reason."""
    if module.path is not None:
        return module.path
    if "missing GPU target" in module.log or "unknown target" in module.log.lower():
        raise DeviceError(
            f"IREE's compiler has no target {target.named_chip} for {target.driver}",
            "name another `chip`, such as sm_80 or sm_89; code for sm_80 runs on newer GPUs too",
        )
    raise DeviceError(f"IREE does not compile {what} for {target.named_chip}: {module.message}")


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
