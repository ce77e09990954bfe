"""IREE's compiler: several processes at once, each with a time limit; what was compiled before is kept."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from ...core import DeviceError
from ...core.files import write_whole
from ..compilation.pool import CompileResult, CompileStatus
from ..workers.client import describe_exit
from .target import COMPILER, IreeTarget, find_compiler, installed

LOG_CHARACTERS = 4000
_ERROR = re.compile(r"(?:[^\s:]+:(\d+):\d+: )?error: (.*)")


@dataclass(frozen=True)
class CompiledModule(CompileResult):
    """The outcome for one module."""

    path: Path | None = None
    """The compiled module, where there is one."""
    log: str = ""
    """What the compiler said."""


class IreeCompiler:
    """Compiles modules for one target, `count` at once; `seconds` limit each.

    Modules stay in `folder` by their content: text, options, the compiler's version, and for 'host' the processor. So
    do refusals. `release` is the version whose modules are taken, by default the one that is installed; without a
    compiler those of the folder are all there is.
    """

    def __init__(
        self, target: IreeTarget, folder: Path, count: int = 1, seconds: float = 120.0, release: str = ""
    ) -> None:
        self.target = target
        self._folder = folder
        self._seconds = seconds
        self._release = release or installed(COMPILER)
        self._threads = ThreadPoolExecutor(count, "iree-compile")
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self._known: dict[str, Future[CompiledModule]] = {}

    def submit(self, source: str, more: Sequence[str] = ()) -> Future[CompiledModule]:
        """Compile a module's text with `more` options; a text that was submitted before is not compiled again."""
        key = self._key(source, more)
        with self._lock:
            if key not in self._known:
                self._known[key] = self._threads.submit(self._compile, source, key, more)
            return self._known[key]

    def _key(self, source: str, more: Sequence[str]) -> str:
        parts = [source, *self.target.measured_flags, *more, self.target.host_key]
        # An option may name a file, whose content decides.
        parts += [Path(name).read_text() for one in more if (name := one.partition("=")[2]) and Path(name).is_file()]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]

    def _compile(self, source: str, key: str, more: Sequence[str]) -> CompiledModule:
        path = self._folder / (self._release or "none") / f"{key}.vmfb"
        refused = path.with_suffix(".txt")
        if path.exists():
            return CompiledModule(CompileStatus.COMPILED, digest=_digest(path), path=path)
        if refused.exists():
            log = refused.read_text()
            return CompiledModule(CompileStatus.FAILED, first_error(log), log=log)
        program = find_compiler()
        path.parent.mkdir(parents=True, exist_ok=True)
        started = time.monotonic()
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".") as beside:
            part = Path(beside) / "module.vmfb"
            command = [str(program), "-", *self.target.measured_flags, *more, "-o", str(part)]
            code, log = self._run(command, source)
            seconds = time.monotonic() - started
            if code is None:
                told = f"IREE's compiler took longer than {self._seconds:g} s"
                return CompiledModule(CompileStatus.TIMEOUT, told, seconds=seconds, log=log)
            if code < 0:
                told = f"IREE's compiler was {describe_exit(code)}: {first_error(log)}"
                return CompiledModule(CompileStatus.CRASHED, told, seconds=seconds, log=log)
            if code or not part.exists():
                write_whole(refused, log)
                return CompiledModule(CompileStatus.FAILED, first_error(log), seconds=seconds, log=log)
            os.replace(part, path)
        return CompiledModule(CompileStatus.COMPILED, digest=_digest(path), seconds=seconds, path=path, log=log)

    def _run(self, command: Sequence[str], source: str) -> tuple[int | None, str]:
        """Return the exit code, None beyond the time limit, and the end of what was said."""
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,  # a Ctrl-C is for the command, and its linker ends with it
        )
        with self._lock:
            self._running.add(process)
        try:
            told = process.communicate(source.encode(), timeout=self._seconds)[1]
            code: int | None = process.returncode
        except subprocess.TimeoutExpired:
            _kill(process)
            told, code = process.communicate()[1], None
        finally:
            with self._lock:
                self._running.discard(process)
        return code, told.decode(errors="replace")[:LOG_CHARACTERS]

    def close(self) -> None:
        """End what compiles, and forget what waits."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            running = list(self._running)
        for process in running:
            _kill(process)
        self._threads.shutdown()


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


def _kill(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
