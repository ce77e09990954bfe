"""Nsight Compute's counters: its CSV read, its absence reported, and the program that it would run, run for real."""

from __future__ import annotations

import json
import os
import re
import stat
import sys
from pathlib import Path

import pytest
from kernelwright.core import Problem
from kernelwright.evaluators.profiling.counters import Counted, count
from kernelwright.evaluators.profiling.ncu import METRICS, STALLS, read_csv, tool_command
from kernelwright.evaluators.sandbox import bubblewrap
from kernelwright.evaluators.sandbox.places import Places
from kernelwright.evaluators.settings import Sandbox

from ...conftest import torch_kernel

NO_BWRAP = bubblewrap.obstacle(Places.of_this_process())
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
    command = tool_command("ncu", tmp_path)
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
    found = count(scale_problem, torch_kernel(noting, top), "cpu", {"scale"}, Sandbox.NONE)
    assert found.remark == ""
    assert found.counters["dram_mb"] == pytest.approx(3.234)
    assert (tmp_path / "calls").read_text().splitlines() == ["(32, 256) None"] * 3
    assert "--profile-from-start" in json.loads((tmp_path / "noted").read_text())


@pytest.mark.skipif(NO_BWRAP is not None, reason=str(NO_BWRAP))
def test_the_kernel_reads_and_writes_nothing_of_the_user(
    tmp_path: Path, scale_problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    tool = tmp_path / "bin" / "ncu"
    # Runs the program and leaves what it printed where ncu's log is expected.
    tool.write_text(
        f"#!{sys.executable}\nimport subprocess, sys\nat = sys.argv.index({sys.executable!r})\n"
        "log = sys.argv[sys.argv.index('--log-file') + 1]\n"
        "done = subprocess.run(sys.argv[at:], capture_output=True, text=True)\n"
        "said = (done.stdout + done.stderr).strip().splitlines()[-1]\n"
        "open(log, 'w').write(f'==ERROR== {said}')\n"
    )
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tool.parent), prepend=os.pathsep)
    (tmp_path / "secret").write_text("PLANTED-SECRET")
    for attempt in (f"open({str(tmp_path / 'secret')!r})", f"open({str(tmp_path / 'new')!r}, 'w')"):
        stealing = torch_kernel(f"raise SystemExit({attempt})")
        found = count(scale_problem, stealing, "cpu", sandbox=Sandbox.BWRAP)
        assert re.search("No such file|Read-only", found.remark), found
    assert not (tmp_path / "new").exists()
    assert "needs bubblewrap" in count(scale_problem, stealing, "cpu", sandbox=Sandbox.LANDLOCK).remark


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
    found = count(scale_problem, torch_kernel("return x"), "cuda", sandbox=Sandbox.NONE)
    assert found.counters == {}
    assert found.remark.startswith("no counters: ")
    assert remark in found.remark


def test_a_tool_that_hangs_is_given_up(tool: Path, scale_problem: Problem) -> None:
    tool.write_text("#!/bin/sh\nexec sleep 60\n")
    found = count(scale_problem, torch_kernel("return x"), "cuda", sandbox=Sandbox.NONE, timeout_s=0.2)
    assert found == Counted(remark="no counters: ncu did not finish within 0.2 s")


def test_a_machine_without_ncu(monkeypatch: pytest.MonkeyPatch, scale_problem: Problem) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert count(scale_problem, torch_kernel("return x"), "cuda", sandbox=Sandbox.NONE) == Counted(
        remark="no counters: Nsight Compute's ncu is not on the PATH"
    )
