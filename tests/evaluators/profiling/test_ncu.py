"""Nsight Compute's counters: its CSV read, its absence reported, and the program that it would run, run for real."""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path

import pytest
from kernelwright.core import Problem
from kernelwright.evaluators.profiling.ncu import METRICS, STALLS, Counted, count, ncu_command, read_csv

from ...conftest import torch_kernel

# As ncu 2025.3 wrote it on an H200 for the Triton kernel of 1_36.
RECORDED = Path(__file__).with_name("ncu_h200.csv")
# Of the same form, with simple numbers.
RAW = Path(__file__).with_name("ncu_raw.csv")
# Takes the place of ncu: notes its options, runs the program, and writes the given log.
TOOL = """#!{python}
import json, subprocess, sys
at = sys.argv.index({python!r})
open({noted!r}, "w").write(json.dumps(sys.argv[1:at]))
done = subprocess.run(sys.argv[at:])
log = sys.argv[sys.argv.index("--log-file") + 1]
open(log, "w").write(open({recorded!r}).read())
sys.exit(done.returncode)
"""


def test_what_ncu_wrote_on_an_h200() -> None:
    found = read_csv(RECORDED.read_text(), {"rms_norm_kernel"})
    # It reads its 1.07 GB twice and writes them once, and memory is what bounds it.
    assert found["dram_mb"] == pytest.approx(3 * 1074, rel=0.05)
    assert found["dram_throughput_pct"] > 80 > found["sm_throughput_pct"]
    assert sum(name.startswith("stall_") for name in found) == 3


def test_launches_are_weighted_by_their_time() -> None:
    found = read_csv(RAW.read_text(), {"scale"})
    # Two launches, of 10,000 and 30,000 ns.
    assert found["dram_throughput_pct"] == pytest.approx((10 * 40 + 30 * 80) / 40)
    assert found["dram_mb"] == pytest.approx(1.234 + 2.0)
    assert found["sm_throughput_pct"] == pytest.approx(25)
    assert "tensor_pipe_pct" not in found  # n/a on that GPU


def test_the_three_largest_stalls_are_shares_of_all() -> None:
    found = read_csv(RAW.read_text(), {"scale"})
    stalls = {name: value for name, value in found.items() if name.startswith("stall_")}
    assert list(stalls) == ["stall_long_scoreboard_pct", "stall_wait_pct", "stall_barrier_pct"]
    assert stalls["stall_long_scoreboard_pct"] == pytest.approx(60)
    assert sum(stalls.values()) < 100


def test_by_default_all_kernels_count_and_none_of_another_name() -> None:
    assert read_csv(RAW.read_text())["dram_mb"] == pytest.approx(1.234 + 2.0 + 500)
    assert read_csv(RAW.read_text(), {"other"}) == {}
    assert read_csv("==PROF== Connected to process 1\n==WARNING== No kernels were profiled.\n") == {}


def test_every_metric_is_asked_for(tmp_path: Path) -> None:
    command = ncu_command("ncu", tmp_path / "log")
    asked = command[command.index("--metrics") + 1].split(",")
    assert set(METRICS.values()) < set(asked)
    assert sum("issue_stalled" in name for name in asked) == len(STALLS)
    assert command[command.index("--clock-control") + 1] == "none"


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    path = folder / "ncu"
    path.write_text(TOOL.format(python=sys.executable, noted=str(tmp_path / "noted"), recorded=str(RAW)))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    return path


def test_the_kernel_is_called_until_it_is_compiled_and_once_more(
    tool: Path, tmp_path: Path, scale_problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "secret")
    top = f"import os\nKEY, CALLS = 'SOME_API_KEY', {str(tmp_path / 'calls')!r}"
    noting = "open(CALLS, 'a').write(f'{tuple(x.shape)} {os.environ.get(\"SOME_API_KEY\")}\\n'); return x * self.weight"
    found = count(scale_problem, torch_kernel(noting, top), "cpu", {"scale"})
    assert found.remark == ""
    assert found.counters["dram_mb"] == pytest.approx(3.234)
    assert (tmp_path / "calls").read_text().splitlines() == ["(32, 256) None"] * 3
    assert "--profile-from-start" in json.loads((tmp_path / "noted").read_text())


@pytest.mark.parametrize(
    ("log", "remark"),
    [
        ("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission", "ask the administrator"),
        ("==ERROR== The application returned an error code (1).", "The application returned an error code (1)."),
        ("", "ncu saw no launch of the kernel"),
    ],
)
def test_why_there_are_no_counters(tool: Path, tmp_path: Path, scale_problem: Problem, log: str, remark: str) -> None:
    told = tmp_path / "told"
    told.write_text(f"==PROF== Connected to process 1\n{log}\n")
    run = f'#!/bin/sh\nwhile [ $# -gt 0 ]; do [ "$1" = --log-file ] && cp {told} "$2"; shift; done\nexit 1\n'
    tool.write_text(run)
    found = count(scale_problem, torch_kernel("return x"), "cuda")
    assert found.counters == {}
    assert found.remark.startswith("no counters: ")
    assert remark in found.remark


def test_a_tool_that_hangs_is_given_up(tool: Path, scale_problem: Problem) -> None:
    tool.write_text("#!/bin/sh\nexec sleep 60\n")
    found = count(scale_problem, torch_kernel("return x"), "cuda", timeout_s=0.2)
    assert found == Counted(remark="no counters: ncu did not finish within 0.2 s")


def test_a_machine_without_ncu(monkeypatch: pytest.MonkeyPatch, scale_problem: Problem) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert count(scale_problem, torch_kernel("return x"), "cuda") == Counted(
        remark="no counters: Nsight Compute's ncu is not on the PATH"
    )
