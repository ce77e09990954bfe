"""Nsight Compute's counters for one call of a kernel, in a separate process, where `ncu` is installed and allowed.

ncu replays each launch many times, so this takes seconds and is never part of an evaluation. ncu and the kernel talk
over a local network, which bubblewrap gives them one of their own for and Landlock's rules refuse.
"""

from __future__ import annotations

import contextlib
import csv
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ...core import Kernel, TorchProblem
from ...core.environment import allowed_environment
from ...core.file_locks import temporary_folder
from ...core.language import cache_environment
from ..sandbox.containment import contain, home_in
from ..sandbox.untrusted_files import read_untrusted_file
from ..settings import Sandbox
from ..workers.problem_file import problem_options
from ..workers.server_client import import_path

_TIME = "gpu__time_duration.sum"
_BYTES = "dram__bytes.sum"
METRICS = {
    "dram_throughput_pct": "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "sm_throughput_pct": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "achieved_occupancy_pct": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "l1_hit_pct": "l1tex__t_sector_hit_rate.pct",
    "l2_hit_pct": "lts__t_sector_hit_rate.pct",
    "tensor_pipe_pct": "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
}
"""Metric names here, and Nsight Compute's."""
DRAM_MB = "dram_mb"
"""Counter of 1e6 bytes read from or written to device memory, over all counted launches."""
STALLS = (
    "barrier", "branch_resolving", "dispatch_stall", "drain", "gmma", "imc_miss", "lg_throttle", "long_scoreboard",
    "math_pipe_throttle", "membar", "mio_throttle", "misc", "no_instruction", "short_scoreboard", "sleeping",
    "tex_throttle", "wait",
)  # fmt: skip
"""Reasons why a warp stalls, as the Profiling Guide names them; a GPU supports some of them only."""
_STALL = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
SHOWN_STALLS = 3
_INSTALLED = [path for path in (Path("/opt/nvidia"), Path("/usr/local/cuda")) if path.exists()]
"""Where ncu's parts are."""
TIMEOUT_S = 300.0
LOG_BYTES = 64 << 20


@dataclass(frozen=True)
class Counted:
    """The counters, or the reason why there are none."""

    counters: dict[str, float] = field(default_factory=dict)
    """For `core.KernelProfile.counters`: `METRICS`, 'dram_mb', and the three largest 'stall_<reason>_pct', each as a
    share of all stalls."""
    remark: str = ""
    """One line when there are no counters."""


def count(
    problem: TorchProblem,
    kernel: Kernel,
    device: str,
    own: Collection[str] = (),
    sandbox: Sandbox = Sandbox.AUTO,
    timeout_s: float = TIMEOUT_S,
) -> Counted:
    """Run the kernel's source under ncu, in bubblewrap; never raises for a failure of ncu or of the kernel.

    `own` are the candidate's kernels by the profiler's names; by default all launched kernels are counted.
    """
    tool = shutil.which("ncu")
    if tool is None:
        return Counted(remark="no counters: Nsight Compute's ncu is not on the PATH")
    containment = contain(sandbox, device)
    if containment.used is Sandbox.LANDLOCK:
        return Counted(remark="no counters: ncu needs bubblewrap, or `sandbox` none")
    with temporary_folder("kernelwright-ncu-") as name:
        folder = Path(name).resolve()
        source, log, request = folder / "kernel.py", folder / "ncu.csv", folder / "request.json"
        source.write_text(kernel.source)
        options = problem_options(problem, folder)
        shown = problem.package.shown if problem.package is not None else ()
        request.write_text(json.dumps({**options, "kernel": str(source), "device": device, "seed": 0}))
        inside = containment.command([Path(tool).parent, *_INSTALLED, *shown], [folder])
        command = [
            *inside,
            *ncu_command(tool, log),
            sys.executable,
            "-P",
            "-m",
            f"{__package__}.ncu_target",
            str(request),
        ]
        environment = {
            **allowed_environment(os.environ),
            **import_path(),
            **cache_environment(folder),
            "TMPDIR": str(folder),
        }
        environment |= home_in(folder) if inside else {}
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                timeout=timeout_s, env=environment,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return Counted(remark=f"no counters: ncu did not finish within {timeout_s:g} s")
        except OSError as error:
            return Counted(remark=f"no counters: ncu cannot be started: {error}")
        report = ""
        with contextlib.suppress(OSError):  # the kernel may have put anything there
            size = min(log.lstat().st_size, LOG_BYTES)
            report = read_untrusted_file(log, size).decode(errors="replace")
    counters = read_csv(report, own)
    if counters:
        return Counted(counters)
    return Counted(remark=f"no counters: {_reason(report, done.stdout + done.stderr)}")


def ncu_command(tool: str, log: Path) -> list[str]:
    """Return ncu and its options; the program to run follows."""
    metrics = [_TIME, _BYTES, *METRICS.values(), *(_STALL.format(reason) for reason in STALLS)]
    return [
        tool, "--csv", "--page", "raw", "--print-units", "base", "--print-kernel-base", "function",
        # ncu's default is the base clock: shares of the peak would differ from those of the timing.
        "--clock-control", "none",
        "--profile-from-start", "off", "--metrics", ",".join(metrics), "--log-file", str(log),
    ]  # fmt: skip


def read_csv(text: str, own: Collection[str] = ()) -> dict[str, float]:
    """Return the counters in the output of `ncu --csv --page raw`: means weighted by time; bytes are summed.

    The output has a row of names, a row of units and a row per launch, after lines that begin with ==. Metrics that the
    GPU lacks ('n/a') are left out. Empty when nothing was counted, or nothing of `own`.
    """
    lines = [line for line in text.splitlines() if line.startswith('"')]
    rows = [row for row in csv.DictReader(lines) if row.get("ID")]  # the row of units has no ID
    rows = [row for row in rows if not own or row.get("Kernel Name") in own]
    weights = [_number(row, _TIME) or 0.0 for row in rows]
    if sum(weights) <= 0:
        weights = [1.0] * len(rows)

    def mean(metric: str) -> float | None:
        values = [_number(row, metric) for row in rows]
        pairs = [(value, weight) for value, weight in zip(values, weights, strict=True) if value is not None]
        total = sum(weight for _, weight in pairs)
        return sum(value * weight for value, weight in pairs) / total if total > 0 else None

    found = {name: value for name, metric in METRICS.items() if (value := mean(metric)) is not None}
    moved = [value for row in rows if (value := _number(row, _BYTES)) is not None]
    if moved:
        found[DRAM_MB] = sum(moved) / 1e6
    stalls = {reason: value for reason in STALLS if (value := mean(_STALL.format(reason)))}
    for reason in sorted(stalls, key=lambda reason: -stalls[reason])[:SHOWN_STALLS]:
        found[f"stall_{reason}_pct"] = 100 * stalls[reason] / sum(stalls.values())
    return found


def _number(row: Mapping[str, str | None], metric: str) -> float | None:
    try:
        return float((row.get(metric) or "").replace(",", ""))
    except ValueError:
        return None


def _reason(report: str, printed: str) -> str:
    if "ERR_NVGPUCTRPERM" in report + printed:
        return "this user may not read the GPU's counters (ERR_NVGPUCTRPERM): ask the administrator of the machine"
    errors = [line for line in report.splitlines() if line.startswith("==ERROR==")]
    last = [*(line.removeprefix("==ERROR==").strip() for line in errors[:1]), *printed.strip().splitlines()[-1:]]
    return last[0] if last else "ncu saw no launch of the kernel"
