"""NVIDIA's compute-sanitizer on one call of a launch plan, in a separate process that is confined like a worker.

The tool itself is NVIDIA's program: under bubblewrap it runs inside with the call, otherwise outside, and talks to the
confined process over local sockets. Only what the plan's own kernels do counts, not torch's.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ...core import Rejection
from ...core.launch_plan import KernelCode, LaunchPlan
from ...core.text import first_line
from ..candidate.replayer import Replayer
from ..candidate.verified import RecordedPlan, VerifiedConfig
from ..devices import present
from ..reference.client import ReferenceClient
from ..sandbox.untrusted_files import read_untrusted_file
from ..settings import Limits
from ..workers.channel import Message
from .apart import Apart
from .sanitizer_report import NOT_SUPPORTED, PRINT_LIMIT, TOOLS, Report, last_error, read_report, version_in

PROGRAM = "compute-sanitizer"
TOOLKIT = Path("/usr/local/cuda/bin")
PACKAGE = "nvidia/*/compute-sanitizer"
"""In the Python environment: where `pip install nvidia-cuda-sanitizer-api` puts it."""
MOST_S = 60.0
"""Seconds that all tools together may take for a launch plan, at all sizes of the kernel."""
MEMORY = 4.0
"""The call may take this many times the memory of a worker: the tools keep records in its process."""
LOG_BYTES = 8 << 20
OpenApart = Callable[[str, Sequence[Path]], contextlib.AbstractContextManager[Apart]]
_CLEAN, _NOT_FINISHED = "clean", "not finished"
_LATE = "the tools together took too long"
_SOURCE = re.compile(r"""[^"'\s]*candidate-\w+[\\/]+kernel_\d+\.py""")
"""Where a candidate's file lay: code names it in its debug information, and each process has another."""
_TARGET = "replay.sanitized_call"


@dataclass(frozen=True)
class Sanitized:
    """Findings of the tools for a kernel."""

    tools: dict[str, str] = field(default_factory=dict)
    """By tool: 'clean', 'found: ...', 'unclear: ...', 'not finished: ...' or 'not run: ...'."""
    finding: Rejection | None = None
    """The rule that it broke."""


class Sanitizer:
    """Runs the tools; remembers what they said of a plan, and how long they took for it at other sizes."""

    def __init__(self, apart: OpenApart, limits: Limits, most_s: float = MOST_S) -> None:
        """`apart` opens what confines a program which may read the given paths."""
        self._apart = apart
        self._limits = limits
        self._most_s = most_s
        self._known: dict[str, Sanitized] = {}
        self._spent: dict[tuple[str, int], float] = {}  # by kernel and place among its plans

    def watches(self, device: str) -> bool:
        """Return whether there are tools for a device."""
        support = present()
        return device != "cpu" and (support is None or support.sanitizer)

    def look(
        self, reference_client: ReferenceClient, replayer: Replayer, checked: VerifiedConfig, kernel: str
    ) -> Sanitized:
        """Run the tools on a call of each plan that was replayed; `kernel` is the digest of its source."""
        if not checked.replayed:
            return _not_run("its launches are not replayed")
        results: list[dict[str, str]] = []
        for place, handed in enumerate(checked.plans):
            recorded = replayer.recorded(handed.number)
            digest = _identity(recorded.plan)
            if digest not in self._known:
                tool = installed()
                if tool is None:
                    return _not_run(f"{PROGRAM} is not installed")
                replayer.release()  # the call needs as much memory again
                began = time.monotonic()
                spent = self._spent.get((kernel, place), 0.0)
                with replayer.holding(reference_client, handed):
                    self._known[digest] = self._run(
                        tool, reference_client, recorded, checked.weights, self._most_s - spent
                    )
                self._spent[kernel, place] = spent + time.monotonic() - began
            found = self._known[digest]
            if found.finding is not None:
                return found
            results.append(found.tools)
        return Sanitized({name: _of_all([tools[name] for tools in results]) for name in TOOLS})

    def _run(
        self, tool: str, reference_client: ReferenceClient, recorded: RecordedPlan, seed: int, seconds: float
    ) -> Sanitized:
        ends = time.monotonic() + seconds
        with contextlib.ExitStack() as stack:
            apart = stack.enter_context(self._apart("sanitizer", _parts(tool)))
            try:
                reason = _hand_over(reference_client, apart, recorded, seed)
            except OSError as error:
                reason = f"its inputs could not be written: {error.strerror}"
            if reason is not None:
                return _not_run(reason)
            codes = {name: code.text for code in _codes(recorded) for name in device_names(code)}
            run = _Run(tool, apart, self._limits, codes)
            told: dict[str, str] = {}
            for name in TOOLS:
                report = run.report(name, ends - time.monotonic())
                if NOT_SUPPORTED in report.told:
                    return _not_run(f"{PROGRAM} does not support this device")
                told[name] = report.told
                if report.finding is not None:
                    return Sanitized(told, report.finding)
            return Sanitized(told)


class _Run:
    """One kernel's files, and the tool that reads them."""

    def __init__(self, tool: str, apart: Apart, limits: Limits, codes: dict[str, str]) -> None:
        self._tool = tool
        self._apart = apart
        self._codes = codes
        self._ended = apart.folder / "ended.json"
        self._log = apart.folder / "report.txt"
        request = apart.inbox / "request.json"
        request.write_text(
            json.dumps(
                {
                    **json.loads(request.read_text()),
                    **apart.options,
                    "rules": apart.rules,
                    "folder": str(apart.folder),
                    "ended": str(self._ended),
                    "memory_gib": MEMORY * limits.memory_gib,
                    "file_gib": limits.file_gib,
                }
            )
        )
        package = __name__.partition(".evaluators.")[0]
        self._program = [sys.executable, "-P", "-m", f"{package}.evaluators.{_TARGET}", str(request)]
        self._version = version_in(self._printed([tool, "--version"], 20.0) or "")

    def report(self, name: str, seconds: float) -> Report:
        """Run one of the tools on the call, with a time limit in seconds."""
        for left in (self._ended, self._log):
            left.unlink(missing_ok=True)
        command = [*self._apart.inside, *tool_command(self._tool, name, self._log, list(self._codes)), *self._program]
        printed = self._printed(command, seconds) if seconds > 0 else None
        text = f"{printed or ''}\n{_read(self._log)}"
        if NOT_SUPPORTED in text:
            return Report(NOT_SUPPORTED)
        found = read_report(name, text, self._codes, self._version)
        if found is not None and found.finding is not None:
            return found
        if printed is None:
            return Report(f"{_NOT_FINISHED}: {_LATE}")
        reason = self._reason()
        if reason is None and found is not None:
            return found
        return Report(f"{_NOT_FINISHED}: {reason or last_error(text) or 'its report has no end'}")

    def _reason(self) -> str | None:
        """Return why the call was not made; None if it was, '' if the reason is unknown."""
        try:
            told = json.loads(_read(self._ended))["reason"]
        except (ValueError, KeyError, TypeError):
            return ""
        return None if told is None else first_line(str(told))

    def _printed(self, command: list[str], seconds: float) -> str | None:
        """Run a command and all that it starts; return what it prints, or None where it does not end in time."""
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            errors="replace", env=self._apart.environment, cwd=self._apart.folder, start_new_session=True,
        )  # fmt: skip
        try:
            return process.communicate(timeout=seconds)[0]
        except subprocess.TimeoutExpired:
            return None
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def installed() -> str | None:
    """Return the tool's path: on the PATH, of the Python environment, or of CUDA's toolkit; None without one."""
    packages = Path(sysconfig.get_path("platlib")).glob(PACKAGE)
    folders = [os.environ.get("PATH", os.defpath), *map(str, packages), str(TOOLKIT)]
    return shutil.which(PROGRAM, path=os.pathsep.join(folders))


def tool_command(tool: str, name: str, log: Path, kernels: list[str]) -> list[str]:
    """Return the tool and its options; the program to run follows.

    All kernels are watched by initcheck: what torch's write is initialised, which not every version sees otherwise.
    """
    filters = [] if name == "initcheck" else [f"--kernel-name=kernel_name={kernel}" for kernel in kernels]
    errors = ["--report-api-errors", "no"] if name == "memcheck" else []
    return [
        tool, "--tool", name, "--log-file", str(log), "--print-limit", str(PRINT_LIMIT), "--demangle", "no",
        "--show-backtrace", "device", "--target-processes", "application-only", *errors, *filters,
    ]  # fmt: skip


def _identity(plan: LaunchPlan) -> str:
    """Return what is equal for two plans that do the same and were recorded in different processes."""
    text = plan.model_dump_json()
    for part in plan.parts:
        for digest, code in part.codes.items():
            text = text.replace(digest, hashlib.sha256(_SOURCE.sub("", code.text).encode()).hexdigest())
    return hashlib.sha256(_SOURCE.sub("", text).encode()).hexdigest()


def _of_all(results: Sequence[str]) -> str:
    """Return a tool's result for a kernel from those of its launch plans: what is not clean for one is not for the
    kernel, and the places of these plans are named."""
    if len(set(results)) == 1:
        return results[0]
    places: dict[str, list[str]] = {}
    for place, text in enumerate(results, 1):
        places.setdefault(text, []).append(str(place))
    return "; ".join(
        f"{text} (launch plan {', '.join(found)} of {len(results)})" for text, found in places.items() if text != _CLEAN
    )


def _not_run(reason: str) -> Sanitized:
    return Sanitized(dict.fromkeys(TOOLS, f"not run: {reason}"))


def _parts(tool: str) -> list[Path]:
    """Return the folders of the tool's parts: its own folder, and those of its toolkit."""
    folders = {Path(tool).absolute().parent, Path(tool).resolve().parent}
    return sorted(folders | {folder.parent / PROGRAM for folder in folders if (folder.parent / PROGRAM).is_dir()})


def device_names(code: KernelCode) -> list[str]:
    """Return the names that compiled code has on the device, by which the tools know it.

    TileLang makes `NAME_kernel`, `NAME_kernel_1` and so on of a function, which its host code launches.
    """
    found = re.findall(rf"\b{re.escape(code.entry)}_kernel(?:_\d+)?\b", code.text) if code.kind == "tir" else []
    return sorted({*found}) or [code.entry]


def _codes(recorded: RecordedPlan) -> Iterator[KernelCode]:
    return (code for part in recorded.plan.parts for code in part.codes.values())


def _hand_over(reference_client: ReferenceClient, apart: Apart, recorded: RecordedPlan, seed: int) -> str | None:
    """Write the plan and what a check of this seed computes on; return why that is not possible, or None."""
    plan, constants = apart.inbox / "plan.json", apart.inbox / "constants.bin"
    plan.write_text(recorded.plan.model_dump_json())
    size = recorded.path.stat().st_size
    constants.write_bytes(read_untrusted_file(recorded.path, size) if size else b"")
    way = {"folder": str(apart.inbox), "share": False}
    weights: Message = reference_client.call("hand_weights", seed=seed, distribution=None, **way)["weights"]
    handed = reference_client.call("hand_inputs", seed=seed, distribution=None, variant=0, **way)
    if handed["reason"] is not None:
        return str(handed["reason"])
    request: Message = {"plan": str(plan), "constants": recorded.constants, "path": str(constants)}
    request |= {"weights": weights, "inputs": handed["inputs"][0]}
    (apart.inbox / "request.json").write_text(json.dumps(request))
    return None


def _read(path: Path) -> str:
    """Return what the confined process may have written, which may be anything."""
    try:
        return bytes(read_untrusted_file(path, min(path.lstat().st_size, LOG_BYTES))).decode(errors="replace")
    except OSError:
        return ""
