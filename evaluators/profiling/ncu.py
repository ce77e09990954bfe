"""Nsight Compute's options, and the counters that it writes; implements `counters.CounterTool`.

ncu and the kernel talk over a local network, which bubblewrap gives them one of their own for and Landlock's rules
refuse.
"""

from __future__ import annotations

import csv
from collections.abc import Collection, Mapping
from pathlib import Path

from ..sandbox.untrusted_files import report_in

PROGRAM, NAME = "ncu", "Nsight Compute's ncu"

_TIME = "gpu__time_duration.sum"
_BYTES = "dram__bytes.sum"
_CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"
_PASSES = "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"
METRICS = {
    "dram_throughput_pct": "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "sm_throughput_pct": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "achieved_occupancy_pct": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "l1_hit_pct": "l1tex__t_sector_hit_rate.pct",
    "l2_hit_pct": "lts__t_sector_hit_rate.pct",
    "tensor_pipe_pct": "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
    "issue_slots_pct": "smsp__issue_active.avg.pct_of_peak_sustained_active",
    "sectors_per_load": "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio",
    "load_bytes_used_pct": "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.pct",
    "active_lanes": "smsp__thread_inst_executed_pred_on_per_inst_executed.ratio",
}
"""Metric names here, and Nsight Compute's."""
DRAM_MB = "dram_mb"
"""Counter of 1e6 bytes read from or written to device memory, over all counted launches."""
BANK_CONFLICTS = "bank_conflict_pct"
"""Counter of shared memory's passes that are conflicts, in per cent, over all counted launches."""
STALLS = (
    "barrier", "branch_resolving", "dispatch_stall", "drain", "gmma", "imc_miss", "lg_throttle", "long_scoreboard",
    "math_pipe_throttle", "membar", "mio_throttle", "misc", "no_instruction", "short_scoreboard", "sleeping",
    "tex_throttle", "wait",
)  # fmt: skip
"""Reasons why a warp stalls, as the Profiling Guide names them; a GPU supports some of them only."""
_STALL = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
SHOWN_STALLS = 3
INSTALLED = [path for path in (Path("/opt/nvidia"), Path("/usr/local/cuda")) if path.exists()]
"""Where ncu's parts are."""
_LOG = "ncu.csv"


def tool_command(tool: str, folder: Path) -> list[str]:
    """Return ncu and its options, to write to a folder; the program to run follows."""
    metrics = [_TIME, _BYTES, _CONFLICTS, _PASSES, *METRICS.values(), *(_STALL.format(reason) for reason in STALLS)]
    return [
        tool, "--csv", "--page", "raw", "--print-units", "base", "--print-kernel-base", "function",
        # ncu's default is the base clock: shares of the peak would differ from those of the timing.
        "--clock-control", "none",
        "--profile-from-start", "off", "--metrics", ",".join(metrics), "--log-file", str(folder / _LOG),
    ]  # fmt: skip


def read_folder(folder: Path, own: Collection[str]) -> dict[str, float]:
    """Return the counters that ncu wrote to a folder."""
    return read_csv(report_in(folder / _LOG), own)


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
    passes = sum(_number(row, _PASSES) or 0.0 for row in rows)
    if passes > 0:
        found[BANK_CONFLICTS] = 100 * sum(_number(row, _CONFLICTS) or 0.0 for row in rows) / passes
    stalls = {reason: value for reason in STALLS if (value := mean(_STALL.format(reason)))}
    for reason in sorted(stalls, key=lambda reason: -stalls[reason])[:SHOWN_STALLS]:
        found[f"stall_{reason}_pct"] = 100 * stalls[reason] / sum(stalls.values())
    return found


def _number(row: Mapping[str, str | None], metric: str) -> float | None:
    try:
        return float((row.get(metric) or "").replace(",", ""))
    except ValueError:
        return None


def reason(folder: Path, printed: str) -> str:
    """Return why there are no counters, from what ncu wrote and printed."""
    report = report_in(folder / _LOG)
    if "ERR_NVGPUCTRPERM" in report + printed:
        return "this user may not read the GPU's counters (ERR_NVGPUCTRPERM): ask the administrator of the machine"
    errors = [line for line in report.splitlines() if line.startswith("==ERROR==")]
    last = [*(line.removeprefix("==ERROR==").strip() for line in errors[:1]), *printed.strip().splitlines()[-1:]]
    return last[0] if last else "ncu saw no launch of the kernel"
