"""The tables of docs/amd.md against the code: each name that AMD's three documents have is there, and ours exist."""

from __future__ import annotations

import dataclasses
import inspect
import re
from pathlib import Path

import pytest
from kernelwright.cli.main import app
from kernelwright.runtime.attention import ScheduleOptimizer, tune_attention
from kernelwright.runtime.attention_result import ScheduleResult
from kernelwright.runtime.options.attention import AttentionConfig
from kernelwright.tuners.gemm.fields import AMD, LAUNCH, TILES
from kernelwright.tuners.gemm.stores.aiter import AiterLegacy
from kernelwright.tuners.schedule.files import dump_schedule
from kernelwright.tuners.schedule.validator import ScheduleValidator
from typer.main import get_command

PAGE = Path(__file__).parents[3] / "docs" / "amd.md"
STATES = {"yes", "yes, on CUDA", "faked", "compiled", "compiled: `gemm`, `moe`", "no"}
DOCUMENTS = {
    "### aiter": """
        setup.py test_configs tune_a8w8_blockscale.py arch_info.get_arch atol rtol aiter/configs/triton/gemm/ small
        medium_M32 medium_M64 medium_M128 large xlarge any test_gemm_a8w8_blockscale.py get_configs_compute_bound
        num_stages block_m block_n group_size_m num_warps num_ksplit waves_per_eu kpack cache_modifier BLOCK_SIZE_K
        matrix_instr_nonkdim 3456 num_iters dtype OutOfResources torch.cuda.set_device latency TFLOPS bandwidth
        progress Architecture default hours
    """,
    "### tune_gemm": """
        rocprof 10 parallel 16 --compare --compare_wo_tuning 15,000 fp16 --gemm_size_file -m --tuning_results_file mfma
        SPLIT_K BLOCK_SIZE_K EVEN_K GROUP_M BLOCK_SIZE_M BLOCK_SIZE_N generated_kernel matmul_kernel_ try_config
        test_gemm main results.csv HSA_STATUS_ERROR_INVALID_ISA v1
    """,
    "### wave": """
        ScheduleValidator ScheduleOptimizer TuningLogger tune_attention AttentionConfig batch_size num_heads seq_len_q
        seq_len_k head_dim head_dim_kv mfma_variant enable_scheduling dynamic_dims num_warmup num_iterations
        attempt_move commit_move reservation infinite schedule_0000.txt tuning.log tuning_progress.csv
        tuning_history.json final_results.json rpd dump_schedule max_iterations max_no_improvement verbose
        improvement_history result.iterations extracted
    """,
}
"""What each document names."""


def rows(section: str) -> list[tuple[str, str, str]]:
    text = PAGE.read_text().partition(section)[2].partition("\n### ")[0]
    cells = [re.split(r"(?<!\\) \| ", line.strip("| \n")) for line in text.splitlines() if line.startswith("| ")]
    found = [(there, ours, state) for there, ours, state in cells if there != "there"]
    assert len(found) > 10
    return found


def options(*command: str) -> set[str]:
    found = get_command(app)
    for name in command:
        found = found.get_command(None, name)  # type: ignore[attr-defined]
    return {spelling for parameter in found.params for spelling in parameter.opts}


@pytest.mark.parametrize("section", DOCUMENTS)
def test_everything_that_a_document_names_has_its_row(section: str) -> None:
    there = " ".join(row[0] for row in rows(section))
    assert [name for name in DOCUMENTS[section].split() if name not in there] == []


@pytest.mark.parametrize("section", DOCUMENTS)
def test_every_row_has_an_answer_and_a_state(section: str) -> None:
    for there, ours, state in rows(section):
        assert ours and state in STATES, there


@pytest.mark.parametrize("section", ["### aiter", "### tune_gemm"])
def test_options_of_ours_exist(section: str) -> None:
    known = options("tune", "gemm") | options("profile")
    named = {option for _, ours, _ in rows(section) for option in re.findall(r"(?<![\w-])--[a-z][a-z_-]*", ours)}
    assert named and named <= known, named - known


def test_tune_gemms_options_are_accepted_as_they_are() -> None:
    named = {name for there, _, _ in rows("### tune_gemm") for name in re.findall(r"(?<![\w-])--?[a-z][a-z_]*", there)}
    assert {"--compare", "--gemm_size_file", "-m", "-n", "-k"} <= named <= options("tune", "gemm")


def test_aiters_keys_and_fields_are_written() -> None:
    keys = {"small", "medium_M32", "medium_M64", "medium_M128", "large", "xlarge", "any"}
    assert {AiterLegacy().key(m) for m in (16, 32, 64, 128, 256, 512)} | {"any"} == keys
    assert len({*TILES, *LAUNCH, "NUM_KSPLIT", *AMD}) == 11


def test_the_wave_tuners_names_are_ours() -> None:
    fields = {item.name for item in dataclasses.fields(AttentionConfig)}
    assert {"batch_size", "num_heads", "seq_len_q", "seq_len_k", "head_dim", "head_dim_kv"} <= fields
    assert not {"mfma_variant", "enable_scheduling", "dynamic_dims"} & fields
    assert [*inspect.signature(ScheduleOptimizer.optimize).parameters][1:] == [
        "max_iterations", "max_no_improvement", "verbose",
    ]  # fmt: skip
    assert [*inspect.signature(ScheduleValidator).parameters] == ["initial_schedule", "T", "graph"]
    assert [*inspect.signature(ScheduleValidator.attempt_move).parameters][1:] == ["node", "new_cycle"]
    assert hasattr(ScheduleValidator, "commit_move") and isinstance(ScheduleValidator.rrt, property)
    assert [*inspect.signature(dump_schedule).parameters][:4] == [
        "graph",
        "schedule",
        "initiation_interval",
        "dump_file",
    ]
    assert all(hasattr(ScheduleResult, name) for name in ("schedule", "iterations", "improvement_history", "latency"))
    assert [*inspect.signature(tune_attention).parameters] == ["config"]
