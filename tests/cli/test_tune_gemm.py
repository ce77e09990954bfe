"""`tune gemm`: its options, its mistakes, and the whole flow in Triton's interpreter."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from kernelwright.cli.main import app
from kernelwright.commands.tune._gemm_result import describe
from kernelwright.commands.tune.gemm import Options
from kernelwright.core import Config, OptionError
from kernelwright.runtime.result import duration
from kernelwright.tuners.gemm.lookup import installed
from kernelwright.tuners.gemm.result import ShapeResult
from kernelwright.tuners.gemm.shapes import Shape
from typer.testing import CliRunner

SIZES = """
- {'M': 48, 'N': 64, 'K': 96, 'rowMajorA': 'T', 'rowMajorB': 'N'}
- {'M': 0, 'N': 64, 'K': 96}
- {'M': 16, 'N': 64, 'K': 128, 'rowMajorA': 'T', 'rowMajorB': 'T'}
"""


def run(*arguments: str | Path) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["tune", "gemm", *map(str, arguments)])
    return result.exit_code, result.stdout, result.stderr


def test_the_whole_flow_at_small_sizes(tmp_path: Path) -> None:
    """With the seeds' own spellings; what it writes is its input again."""
    (tmp_path / "sizes.yaml").write_text(SIZES)
    output, results = tmp_path / "tuned.yaml", tmp_path / "results"
    common = ("--device", "cpu", "--sandbox", "none", "--results", results)
    code, shown, warned = run(
        *("--gemm_size_file", tmp_path / "sizes.yaml", "--tuning_results_file", output, "--compare", *common)
    )
    assert code == 1, warned  # one size was left out
    assert "[1/2] M=48 N=64 K=96:  analytic choice, checked, not timed, largest error" in shown
    assert "M=0 is not a size" in warned
    lines = yaml.safe_load(output.read_text())
    assert [(line["M"], line["rowMajorB"]) for line in lines] == [(48, "N"), (16, "T")]
    code, shown, warned = run("--sizes", output, "--compare_wo_tuning", *common, "--json")
    assert code == 0, warned
    summary = json.loads(shown)
    assert [shape["chosen"] for shape in summary["shapes"]] == ["given", "given"]
    assert summary["shapes"][0]["max_error"] < 1e-2


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("-m", "16"), "there are no sizes; give --sizes FILE, or all of --m, --n and --k"),
        (("-m", "0", "-n", "16", "-k", "16"), "M=0 is not a size"),
        (("-m", "16", "-n", "16", "-k", "16", "--compile-only"), "--compile-only needs an --arch; such as gfx942"),
        (("-m", "16", "-n", "16", "-k", "16", "--arch", "gfx942"), "--arch goes with --compile-only"),
        (
            ("-m", "16", "-n", "16", "-k", "16", "--compile-only", "--arch", "gfx942"),
            "--format kernelwright holds what was measured",
        ),
        (
            ("-m", "16", "-n", "16", "-k", "16", "--compile-only", "--arch", "gfx906", "--format", "aiter"),
            "there is no architecture 'gfx906'; use sm_75",
        ),
        (
            ("-m", "16", "-n", "16", "-k", "16", "--compile-only", "--arch", "gfx942", "--configs", "2"),
            "measure; leave out --compile-only",
        ),
        (
            (
                "-m",
                "16",
                "-n",
                "16",
                "-k",
                "16",
                "--compile-only",
                "--arch",
                "gfx90a",
                "--dtype",
                "fp8",
                "--format",
                "aiter",
            ),
            "has no fp8 products (gfx90a); use --dtype float16 or bfloat16",
        ),
        (("conv", "-m", "16", "-n", "16", "-k", "16"), "there is no product 'conv'"),
        (("moe", "-m", "16", "-n", "16", "-k", "16"), "moe needs --experts and --top-k"),
        (("moe", "-m", "16", "-n", "16", "-k", "16", "--experts", "2", "--top-k", "3"), "TOP_K=3 experts of E=2"),
        (("-m", "16", "-n", "16", "-k", "16", "--top-k", "2"), "--experts and --top-k belong to moe"),
        (
            ("moe", "-m", "8", "-n", "8", "-k", "8", "--experts", "2", "--top-k", "1", "--format", "aiter"),
            "use kernelw",
        ),
        (("-m", "16", "-n", "16", "-k", "16", "--backend", "tilelang", "--device", "cpu"), "run on a GPU only"),
        (("-m", "16", "-n", "16", "-k", "16", "--backend", "tilelang", "--format", "aiter"), "for Triton's kernels"),
        (("-m", "16", "-n", "16", "-k", "16", "--layout", "XX"), "--layout 'XX' is not known"),
        (("-m", "16", "-n", "16", "-k", "16", "--dtype", "int8"), "--dtype 'int8' is not supported for gemm"),
        (("-m", "16", "-n", "16", "-k", "16", "--format", "vllm"), "--format vllm has no files of gemm"),
        (("-m", "16", "-n", "16", "-k", "16", "--sizes", "a.yaml"), "exclude each other"),
        (("--sizes", "no_such.yaml", "--device", "cpu"), "cannot read no_such.yaml"),
        (("-m", "16", "-n", "16", "-k", "16", "--compare-wo-tuning"), "--compare-wo-tuning checks the configs"),
    ],
)
def test_mistakes_are_one_line(arguments: tuple[str, ...], why: str) -> None:
    code, _, warned = run(*arguments)
    assert code == 2
    assert why in warned
    assert len(warned.strip().splitlines()) == 1


def test_a_file_of_another_schema_is_refused_before_the_first_search(tmp_path: Path) -> None:
    (tmp_path / "cpu-GEMM-GEMM_FLOAT16_TN-N=64-K=64.json").write_text('{"16": {}}')
    code, _, warned = run("-m", 16, "-n", 64, "-k", 64, "--device", "cpu", "--output", tmp_path, "--results", tmp_path)
    assert code == 2
    assert "the key '16' is none of kernelwright's" in warned


def test_fp8_experts_are_checked_and_both_files_of_sglang_written(tmp_path: Path) -> None:
    code, shown, warned = run(
        *("moe", "-m", 6, "-n", 32, "-k", 32, "--experts", 3, "--top-k", 2, "--device", "cpu", "--format", "sglang"),
        *("--dtype", "fp8", "--sandbox", "none", "--results", tmp_path / "results", "--output", tmp_path),
    )
    assert code == 0, warned
    assert "[1/1] M=6 N=32 K=32 E=3 TOP_K=2: analytic choice, checked, not timed" in shown
    (folder,) = (tmp_path / "configs").iterdir()
    name = "E=3,N=32,device_name=cpu,dtype=fp8_w8a8,block_shape=[128, 128]"
    up, down = (json.loads((folder / f"{name}{end}.json").read_text()) for end in ("", "_down"))
    assert up == down and list(up) == ["6"]
    (found,) = json.loads(next(tmp_path.rglob("sweep.json")).read_text())["shapes"]
    assert (found["E"], found["TOP_K"]) == (3, 2)


def test_a_depth_that_no_block_of_scales_divides(tmp_path: Path) -> None:
    code, shown, warned = run(
        *("a8w8_blockscale", "-m", 24, "-n", 128, "-k", 352, "--device", "cpu", "--sandbox", "none"),
        *("--results", tmp_path / "results", "--output", tmp_path),
    )
    assert code == 0, warned
    assert "M=24 N=128 K=352: analytic choice, checked, not timed" in shown


def test_entries_of_another_version_of_triton_are_named(tmp_path: Path) -> None:
    """vLLM's file has one version for all entries, which becomes that of the last run."""
    path = tmp_path / "E=3,N=32,device_name=cpu.json"
    fields = {"BLOCK_SIZE_M": 16, "BLOCK_SIZE_N": 32, "BLOCK_SIZE_K": 32, "GROUP_SIZE_M": 1}
    path.write_text(json.dumps({"triton_version": "3.5.1", "9": {**fields, "num_warps": 4, "num_stages": 2}}))
    code, _, warned = run(
        *("moe", "-m", 6, "-n", 32, "-k", 32, "--experts", 3, "--top-k", 2, "--device", "cpu", "--format", "vllm"),
        *("--sandbox", "none", "--results", tmp_path / "results", "--output", tmp_path),
    )
    assert code == 0, warned
    here = installed("triton")
    assert f"{path.name}: 9 measured with triton 3.5.1, all else with {here}; tune these again" in warned
    assert json.loads(path.read_text())["triton_version"] == here


def test_options_know_the_products_dtypes() -> None:
    options = Options("a8w8_blockscale", m=(16,), n=128, k=128)
    assert options.chosen_dtype == "bfloat16"
    assert Options(m=(16,), n=128, k=128, dtype="fp8").chosen_dtype == "float8_e4m3fn"
    with pytest.raises(OptionError, match="takes weights as"):
        Options("a8w8_blockscale", m=(16,), n=128, k=128, layout="TT")
    with pytest.raises(OptionError, match="configs"):
        Options(m=(16,), n=128, k=128, configs=6)


def test_a_shapes_line_says_speed_gain_and_baseline() -> None:
    config = Config({"BLOCK_SIZE_M": 16})
    result = ShapeResult(Shape(1000, 1000, 1000), config, time_ms=0.01, analytic_ms=0.012, baseline_ms=0.011)
    assert describe(result) == (
        "0.0100 ms, 200.0 TFLOP/s, 1.20x the analytic choice, 1.10x cuBLAS (181.8 TFLOP/s) (BLOCK_SIZE_M=16)"
    )
    assert describe(ShapeResult(Shape(1, 1, 1), error="too large")) == "no choice: too large"
    assert (duration(40), duration(300)) == ("40 s", "5 min")


def test_choices_for_an_architecture_that_is_not_here(tmp_path: Path) -> None:
    """aiter's files and tune_gemm's, marked as not measured."""
    sizes = ("-m", "64", "-n", "256", "-k", "512", "--arch", "gfx942", "--compile-only", "--trials", "3")
    common = (*sizes, "--results", tmp_path / "results")
    code, shown, warned = run(*common, "--output", tmp_path / "tuned.yaml")
    assert code == 0, warned
    assert "not measured: " in shown and "mfma f16" in shown and "published rates of AMD Instinct MI300X" in shown
    text = (tmp_path / "tuned.yaml").read_text()
    assert text.endswith("# not measured\n")
    (line,) = yaml.safe_load(text)
    assert {"waves_per_eu", "kpack", "matrix_instr_nonkdim"} <= set(line)
    stamp = json.loads((tmp_path / "kernelwright_versions.json").read_text())["tuned.yaml"]
    assert (stamp["times"], stamp["compiled for"]) == ("not measured", "gfx942")
    code, shown, warned = run("a8w8_blockscale", *common, "--format", "aiter-legacy", "--output", tmp_path / "aiter")
    assert code == 0, warned
    found = json.loads((tmp_path / "aiter" / "gfx942-GEMM-A8W8_BLOCKSCALE-N=256-K=512.json").read_text())
    entry = found["medium_M64"]
    assert (entry["BLOCK_SIZE_K"], entry["kpack"], entry["matrix_instr_nonkdim"]) == (128, 2, 16)
    assert entry["waves_per_eu"] in (2, 4, 8) and entry["cache_modifier"] in ("", ".cg") and "NUM_KSPLIT" in entry
