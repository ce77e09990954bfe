"""rocprofv3's options, and the counters that it writes; implements `counters.CounterTool`.

Never run on a GPU: options and columns are those of ROCm's documentation, and files of that form are tested.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Collection, Mapping
from pathlib import Path

from ..sandbox.untrusted_files import report_in
from .counter_target import WARM_UPS
from .ncu import DRAM_MB

PROGRAM, NAME = "rocprofv3", "ROCm's rocprofv3"
METRICS = {
    "achieved_occupancy_pct": "OccupancyPercent",
    "l2_hit_pct": "L2CacheHit",
    "matrix_pipe_pct": "MfmaUtil",
    "memory_stalled_pct": "MemUnitStalled",
}
"""Metric names here, and rocprofv3's."""
_MOVED = ("FETCH_SIZE", "WRITE_SIZE")
"""Kilobytes read from and written to memory."""
PASSES = ((*_MOVED,), ("OccupancyPercent", "MfmaUtil"), ("L2CacheHit", "MemUnitStalled"))
"""What is counted together: hardware has few counters, and the program runs once for each line."""
INSTALLED = [path for path in sorted(Path("/opt").glob("rocm*")) if path.is_dir()]
"""Where its parts are."""
_INPUT, _OUTPUT = "counters.txt", "rocprof"


def tool_command(tool: str, folder: Path) -> list[str]:
    """Return rocprofv3 and its options, to write to a folder; write its list of counters there."""
    (folder / _INPUT).write_text("".join(f"pmc: {' '.join(line)}\n" for line in PASSES))
    return [tool, "-i", str(folder / _INPUT), "--output-format", "csv", "-d", str(folder / _OUTPUT), "--"]


def read_folder(folder: Path, own: Collection[str]) -> dict[str, float]:
    """Return the counters that rocprofv3 wrote to a folder."""
    found = sorted((folder / _OUTPUT).rglob("*counter_collection.csv"))
    return read_csv([report_in(path) for path in found], own)


def read_csv(texts: Collection[str], own: Collection[str] = ()) -> dict[str, float]:
    """Return the counters of the last call: means weighted by time, and megabytes as a sum.

    Each text is a file with a row per counter and dispatch. The program's calls are all recorded: of each kernel the
    last of `WARM_UPS + 1` equal parts count. Empty when nothing was counted, or nothing of `own`.
    """
    values: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for text in texts:
        rows = [row for row in csv.DictReader(text.splitlines()) if row.get("Counter_Name")]
        grouped: dict[tuple[str, str], list[Mapping[str, str]]] = defaultdict(list)
        for row in rows:
            name = (row.get("Kernel_Name") or "").removesuffix(".kd")
            if not own or name in own:
                grouped[name, row["Counter_Name"]].append(row)
        for (_, counter), launches in grouped.items():
            for launch in launches[-max(1, len(launches) // (WARM_UPS + 1)) :]:
                time = _number(launch, "End_Timestamp") - _number(launch, "Start_Timestamp")
                values[counter].append((_number(launch, "Counter_Value"), time if time > 0 else 1.0))
    found = {name: _mean(values[metric]) for name, metric in METRICS.items() if values.get(metric)}
    moved = [value for name in _MOVED for value, _ in values.get(name, [])]
    if moved:
        found[DRAM_MB] = sum(moved) * 1024 / 1e6
    return found


def reason(folder: Path, printed: str) -> str:
    """Return why there are no counters: the last thing that rocprofv3 printed."""
    lines = [line for line in printed.strip().splitlines() if line.strip()]
    return lines[-1] if lines else "rocprofv3 saw no launch of the kernel"


def _mean(pairs: list[tuple[float, float]]) -> float:
    return sum(value * weight for value, weight in pairs) / sum(weight for _, weight in pairs)


def _number(row: Mapping[str, str], column: str) -> float:
    try:
        return float(row.get(column) or 0)
    except ValueError:
        return 0.0
