"""rocprofv3's counters: files of its form read, and a program in its place run for real."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

import pytest
from kernelwright.core import Problem
from kernelwright.evaluators.devices import HIP
from kernelwright.evaluators.profiling import counters
from kernelwright.evaluators.profiling.rocprof import METRICS, PASSES, read_csv, tool_command
from kernelwright.evaluators.settings import Sandbox

from ...conftest import torch_kernel

HEADER = (
    "Correlation_Id,Dispatch_Id,Agent_Id,Queue_Id,Process_Id,Thread_Id,Grid_Size,Kernel_Id,Kernel_Name,Workgroup_Size,"
    "LDS_Block_Size,Scratch_Size,VGPR_Count,Accum_VGPR_Count,SGPR_Count,Counter_Name,Counter_Value,Start_Timestamp,"
    "End_Timestamp"
)


def table(*rows: tuple[int, str, str, float, int]) -> str:
    """Rows of dispatch, kernel, counter, value and nanoseconds."""
    lines = [
        f'{number},{number},"Agent 4",1,7,7,4096,5,"{name}",256,0,0,32,0,16,"{counter}",{value},1000,{1000 + time}'
        for number, name, counter, value, time in rows
    ]
    return "\n".join([HEADER, *lines])


def test_the_last_call_counts_weighted_by_time() -> None:
    calls = [table(*((n, "scale", "L2CacheHit", 10.0 * n, 100) for n in (1, 2, 3)))]
    assert read_csv(calls) == {"l2_hit_pct": pytest.approx(30)}
    two = [(n, "scale", "OccupancyPercent", value, time) for n, (value, time) in enumerate([(0, 1)] * 4)]
    two += [(4, "scale", "OccupancyPercent", 40, 100), (5, "scale", "OccupancyPercent", 80, 300)]
    assert read_csv([table(*two)])["achieved_occupancy_pct"] == pytest.approx((40 + 3 * 80) / 4)


def test_kilobytes_of_all_passes_are_added_and_other_kernels_left_out() -> None:
    texts = [
        table((1, "scale.kd", "FETCH_SIZE", 2000, 9), (2, "fill", "FETCH_SIZE", 7000, 9)),
        table((1, "scale.kd", "WRITE_SIZE", 1000, 9)),
    ]
    assert read_csv(texts, {"scale"}) == {"dram_mb": pytest.approx(3000 * 1024 / 1e6)}
    assert read_csv(texts, {"other"}) == {} == read_csv([""])


def test_every_metric_is_asked_for(tmp_path: Path) -> None:
    command = tool_command("rocprofv3", tmp_path)
    lines = (tmp_path / "counters.txt").read_text().splitlines()
    asked = {name for line in lines for name in line.removeprefix("pmc: ").split()}
    assert len(lines) == len(PASSES) and {*METRICS.values(), "FETCH_SIZE", "WRITE_SIZE"} == asked
    assert command[-1] == "--" and command[command.index("--output-format") + 1] == "csv"


def test_the_kernel_runs_under_it(tmp_path: Path, scale_problem: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    told = tmp_path / "told.csv"
    told.write_text(table((1, "scale", "FETCH_SIZE", 1000, 9)))
    tool = tmp_path / "bin" / "rocprofv3"
    tool.parent.mkdir()
    tool.write_text(
        f"#!{sys.executable}\nimport pathlib, subprocess, sys\nat = sys.argv.index('--')\n"
        "done = subprocess.run(sys.argv[at + 1:])\n"
        "out = pathlib.Path(sys.argv[sys.argv.index('-d') + 1], 'pass_1')\nout.mkdir(parents=True)\n"
        f"(out / '7_counter_collection.csv').write_text(open({str(told)!r}).read())\nsys.exit(done.returncode)\n"
    )
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(counters, "present", lambda: HIP)
    monkeypatch.setenv("PATH", str(tool.parent), prepend=":")
    kernel = torch_kernel(f"open({str(tmp_path / 'calls')!r}, 'a').write('x'); return x * self.weight")
    found = counters.count(scale_problem, kernel, "cpu", {"scale"}, Sandbox.NONE)
    assert (found.remark, found.counters) == ("", {"dram_mb": pytest.approx(1.024)})
    assert (tmp_path / "calls").read_text() == "xxx"
    monkeypatch.setenv("PATH", str(tmp_path))
    assert counters.count(scale_problem, kernel, "cpu").remark == "no counters: ROCm's rocprofv3 is not on the PATH"
