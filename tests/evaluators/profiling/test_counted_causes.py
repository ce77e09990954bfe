"""Causes that only counters show, from ncu's CSV with typed values: the table names each first.

The names of the metrics are Nsight Compute's; a GPU test of `profile --ncu` asks for them all.
"""

from __future__ import annotations

import csv
import io

import pytest
from kernelwright.core import KernelProfile
from kernelwright.core.causes.bottleneck import Bottleneck, find_bottleneck
from kernelwright.core.causes.counters import STALLS as EXPLAINED
from kernelwright.evaluators.languages.base import CompiledKernel
from kernelwright.evaluators.profiling.ncu import METRICS, STALLS, read_csv, tool_command

from .machine_code.conftest import STREAM, launched

SOUND = {
    "gpu__time_duration.sum": "490,000",
    "dram__bytes.sum": "410,000,000",
    METRICS["dram_throughput_pct"]: "20.00",
    METRICS["sm_throughput_pct"]: "20.00",
    METRICS["l2_hit_pct"]: "48.00",
    METRICS["issue_slots_pct"]: "80.00",
    METRICS["sectors_per_load"]: "16",
    METRICS["load_bytes_used_pct"]: "100",
    METRICS["active_lanes"]: "32",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum": "0",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum": "1,000,000",
    "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio": "6",
    "smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio": "1",
}
STALL = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"


def counted(**changed: str) -> Bottleneck:
    """The bottleneck of a kernel without a cause in its code, and these values in ncu's report."""
    values = {**SOUND, **changed}
    names = ["ID", "Kernel Name", *values]
    text = io.StringIO()
    written = csv.writer(text, quoting=csv.QUOTE_ALL)
    for row in (names, ["", "", *("%" for _ in values)], ["0", "rows", *values.values()]):
        written.writerow(row)
    counters = read_csv(f"==PROF== Connected to process 1\n{text.getvalue()}", {"rows"})
    (kernel,) = launched(CompiledKernel("rows", 32, 0, 0, 256, ()), 132 * 8 * 20, time_ms=0.49).kernels
    return find_bottleneck(STREAM, 0.5, KernelProfile(kernels=(kernel,), counters=counters))


@pytest.mark.parametrize(
    ("changed", "cause", "sentence"),
    [
        ({METRICS["load_bytes_used_pct"]: "12.5", METRICS["sectors_per_load"]: "32"}, "uncoalesced access",
         "its loads use 12 % of the bytes of the sectors they move, 32.0 sectors per request: costs up to 80% of"),
        ({"l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum": "870,000"}, "bank conflicts",
         "87 % of shared memory's passes are bank conflicts: costs up to 80% of the time"),
        ({"dram__bytes.sum": "2,000,000,000", METRICS["l2_hit_pct"]: "11"}, "extra traffic",
         "2000.0 MB went through device memory, 5.0 times what must move; L2 holds 11 % of what is asked for, so data "
         "that is used again was evicted: costs up to 80% of the time"),
        ({METRICS["active_lanes"]: "1.2"}, "idle lanes", "1.2 of 32 lanes execute an instruction on average: costs"),
        ({METRICS["issue_slots_pct"]: "10", STALL.format("barrier"): "60"}, "stalls",
         "90 % of issue slots are empty, and 91 % of its warps' stalls are 'barrier': warps of a block wait for its "
         "slowest one: costs up to 80% of the time"),
    ],
)  # fmt: skip
def test_a_cause_in_the_counters_is_named_first(changed: dict[str, str], cause: str, sentence: str) -> None:
    found = counted(**changed)
    assert found.cause == cause, found
    assert sentence in found.evidence[0], found.evidence[0]


def test_without_a_cause_in_the_counters_the_time_stays_unexplained() -> None:
    assert counted().cause == "unexplained time"


def test_every_stall_that_is_counted_is_explained() -> None:
    assert set(STALLS) == EXPLAINED.keys()


@pytest.mark.gpu
def test_ncu_counts_every_metric_of_a_real_kernel(tmp_path_factory: pytest.TempPathFactory) -> None:
    import shutil
    import subprocess
    import sys

    if shutil.which("ncu") is None:
        pytest.skip("needs Nsight Compute's ncu")
    folder = tmp_path_factory.mktemp("ncu")
    program = (
        "import torch\nx = torch.rand(4096, 4096, device='cuda')\ntorch.cuda.synchronize()\n"
        "torch.cuda.profiler.start()\n(x.t() + x).contiguous()\ntorch.cuda.synchronize()\n"
        "torch.cuda.profiler.stop()\n"
    )
    run = subprocess.run(
        [*tool_command("ncu", folder), sys.executable, "-c", program], capture_output=True, text=True, timeout=300
    )
    text = (folder / "ncu.csv").read_text()
    if "ERR_NVGPUCTRPERM" in text + run.stdout:
        pytest.skip("this user may not read the GPU's counters")
    found = read_csv(text)
    assert found.keys() >= METRICS.keys() - {"tensor_pipe_pct"}, (found, run.stdout[-2000:])
    # A transposed operand is read with gaps: less than all bytes of its sectors are used.
    assert 0 < found["load_bytes_used_pct"] <= 100 and 0 < found["active_lanes"] <= 32
