"""The shipped matrix products: every layout, dtype and form."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kernelwright.core import Config, Status
from kernelwright.core.space_inference import declared_space
from kernelwright.corpus import find_kernel, find_problem, list_operators
from kernelwright.evaluators.local import LocalEvaluator
from kernelwright.evaluators.settings import Sampling
from kernelwright.evaluators.workers.modules import ProblemModule

from ..agent.tilelang_interpreter import load
from ..conftest import OnGpu

IN_ROLES = {"BLOCK_SIZE_M": 128, "NUM_WARPS": 8, "POLICY": "FullRow"}
PROGRAM = Path(__file__).with_name("gemm_forms.py")


def forms(how: str) -> dict[str, Any]:
    environment = {**os.environ, "TRITON_INTERPRET": str(int(how == "interpreted"))}
    command = [sys.executable, str(PROGRAM), how]
    run = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False, env=environment)
    assert run.returncode == 0, run.stderr[-3000:]
    found: dict[str, Any] = json.loads(run.stdout)
    return found


def test_products_are_found_by_their_names() -> None:
    products = ("a8w8_blockscale", "gemm", "moe", "mxfp8", "nvfp4")
    assert list_operators() == ["attention/decoding", *(f"gemm/{name}" for name in products)]
    for name in list_operators():
        file = find_kernel(name, "triton")
        assert file.problem == name
        assert find_kernel(str(file.path), "triton").problem == name
        assert find_problem(name).read().workloads["tiny"]


@pytest.mark.parametrize(
    ("name", "backend"),
    [*((name, "triton") for name in list_operators()), ("gemm/gemm", "tilelang"), ("gemm/a8w8_blockscale", "tilelang")],
)
def test_spaces_hold_the_constants_and_the_forms(name: str, backend: str) -> None:
    kernel = find_kernel(name, backend).read()
    space = declared_space(kernel, find_problem(name).read())
    assert space is not None
    assert space.default == Config({name: kernel.config[name] for name in space.names})
    if "VARIANT" in space.names:
        tiles = {} if backend == "triton" else {"BLOCK_SIZE_N": 256, **IN_ROLES}
        form = "tma" if backend == "triton" else "roles"
        assert Config({**space.default, **tiles, "VARIANT": form}) in space
        assert Config({**space.default, **tiles, "VARIANT": form, "SPLIT_K": 2}) not in space
    if "POLICY" in space.names and "VARIANT" in space.names:
        three = {**space.default, **IN_ROLES, "VARIANT": "roles", "BLOCK_SIZE_M": 192, "NUM_WARPS": 12}
        assert Config({**three, "NUM_STAGES": 4}) in space
        assert Config({**three, "NUM_STAGES": 5}) not in space  # shared memory


def test_every_form_is_right_in_the_interpreter() -> None:
    errors = forms("interpreted")
    assert len(errors) == 5 + 3 * 3 + 4 * 2 + 2 + 4
    # At most the next number in bf16.
    assert {form: error for form, error in errors.items() if error > 2**-7} == {}


def test_every_form_compiles_to_matrix_instructions_of_sm_90() -> None:
    found = forms("compiled")
    assert len(found) == 2 * 4 + 3 + 2 + 2
    for form, (shared, matrix, bulk, late, alone, stack) in found.items():
        assert 0 < shared <= 227 * 1024
        fp8 = "float8" in form or "a8w8" in form
        assert matrix == ["e4m3" if fp8 else "bf16" if "bfloat16" in form else "f16"], form
        assert bulk == any(f"'{variant}'" in form for variant in ("tma", "tma_tile")), form
        assert not alone, form
        # Scales are on their way while the product runs: behind it each step would wait for L2.
        assert not late, form
        assert stack <= 128, form


TILELANG = [
    ("gemm", {"LAYOUT": "NT", "DTYPE": "bfloat16"}, {"SPLIT_K": 2, "GROUP_SIZE_M": 1, "POLICY": "FullRow"}),
    ("gemm", {"LAYOUT": "TN", "DTYPE": "float8_e4m3fn", "M": 48}, {"NUM_WARPS": 8, "BLOCK_SIZE_K": 128}),
    ("a8w8_blockscale", {}, {}),
    ("a8w8_blockscale", {"N": 640}, {"BLOCK_SIZE_N": 256, "NUM_WARPS": 8, "SPLIT_K": 2, "BLOCK_SIZE_K": 64}),
    ("a8w8_blockscale", {}, {**IN_ROLES, "VARIANT": "roles", "BLOCK_SIZE_N": 256}),
    ("a8w8_blockscale", {}, {**IN_ROLES, "VARIANT": "turns", "NUM_STAGES": 6}),
    ("a8w8_blockscale", {}, {**IN_ROLES, "VARIANT": "pairs", "BLOCK_SIZE_N": 256}),
    ("a8w8_blockscale", {}, {**IN_ROLES, "VARIANT": "turns", "BLOCK_SIZE_M": 192, "NUM_WARPS": 12}),
]


def test_tilelangs_products_compile_to_matrix_instructions_of_sm_90(tmp_path: Path) -> None:
    cases = [(name, {"M": 256, "N": 512, "K": 1024, **sizes}, config) for name, sizes, config in TILELANG]
    command = [sys.executable, str(PROGRAM.with_name("cross_compile_gemm_tilelang.py")), str(tmp_path)]
    run = subprocess.run([*command, json.dumps(cases)], capture_output=True, text=True, timeout=240, check=False)
    assert run.returncode == 0, run.stderr[-3000:]
    for (name, _, given), line in zip(cases, run.stdout.splitlines(), strict=True):
        compiled = json.loads(line)
        assert isinstance(compiled, list), compiled
        assert [kernel["name"] for kernel in compiled[1:]] == ["sum_parts_kernel"] * (given.get("SPLIT_K", 1) > 1)
        product = compiled[0]
        config = {**find_kernel(f"gemm/{name}", "tilelang").read().config, **given}
        width = 1 if product["fp8"] else 2
        tile = (config["BLOCK_SIZE_M"] + config["BLOCK_SIZE_N"]) * config["BLOCK_SIZE_K"] * width
        # What the search takes for the least: as many buffers as there are stages.
        assert tile * config["NUM_STAGES"] <= product["shared"] <= 227 * 1024
        assert product["wgmma"] and product["tma"]
        # A tile of fp8 is added in fp32 registers; its scales are read before its buffers are given back.
        assert product["promoted"] == product["fp8"]
        in_roles = config.get("VARIANT", "plain") != "plain"
        assert product["roles"] == in_roles
        if name == "a8w8_blockscale" and not in_roles:
            assert product["scales_read_first"]


@pytest.mark.parametrize(
    ("name", "sizes", "config"),
    [
        ("gemm", {"LAYOUT": "TT"}, {}),
        ("gemm", {"LAYOUT": "NN"}, {"SPLIT_K": 2, "GROUP_SIZE_M": 1}),
        ("gemm", {"LAYOUT": "NT", "M": 16}, {}),
        ("gemm", {"LAYOUT": "TN", "DTYPE": "float8_e4m3fn"}, {"SPLIT_K": 3}),
        ("a8w8_blockscale", {"M": 16, "N": 150, "K": 300}, {"BLOCK_SIZE_K": 64}),
        ("a8w8_blockscale", {"M": 16, "N": 150, "K": 300}, {"BLOCK_SIZE_K": 128, "BLOCK_SIZE_N": 256, "SPLIT_K": 2}),
    ],
)
def test_tilelangs_products_are_right(name: str, sizes: dict[str, Any], config: dict[str, Any]) -> None:
    """Statement by statement, at extents that no tile divides."""
    problem = find_problem(f"gemm/{name}").read()
    sized = ProblemModule(Path(problem.path), {"M": 80, "N": 40, "K": 70, **sizes}, "cpu")
    inputs = sized.inputs(0)
    kernel = find_kernel(f"gemm/{name}", "tilelang").read()
    bound = kernel.bind({"BLOCK_SIZE_M": 64, "BLOCK_SIZE_N": 32, "BLOCK_SIZE_K": 32, **config})
    result, expected = load(bound.source)["ModelNew"]()(*inputs), sized.model(0)(*inputs).float()
    # The interpreter keeps fp32 where the reference rounds to bf16.
    assert float((result - expected).abs().max() / expected.abs().max()) < 2**-8


@pytest.fixture(scope="module")
def gpu(on_gpu: OnGpu) -> Iterator[LocalEvaluator]:
    # What is asked is whether they are right at the sizes that a test names; others wait while they are timed.
    with on_gpu(second_workload=False, sampling=Sampling(seconds=0.1)) as evaluator:
        yield evaluator


def assert_right(gpu: LocalEvaluator, name: str, sizes: dict[str, Any], configs: list[Any], backend: str) -> None:
    """All configs at these sizes, compiled side by side."""
    kernel = find_kernel(f"gemm/{name}", backend).read()
    problem = find_problem(f"gemm/{name}").read().resized("test", sizes)
    found = gpu.compare(problem, kernel, [Config(config) for config in configs])
    assert {
        str(evaluation.config): evaluation.message + evaluation.log
        for evaluation in found
        if evaluation.status is not Status.OK
    } == {}
    assert len(found) == len(configs)


@pytest.mark.gpu
@pytest.mark.timeout(400)
@pytest.mark.parametrize(("name", "sizes", "config"), TILELANG)
def test_tilelangs_products_are_right_on_a_gpu(
    gpu: LocalEvaluator, name: str, sizes: dict[str, Any], config: dict[str, Any]
) -> None:
    for extents in ({"M": 272, "N": 528, "K": 1040}, {"M": 1024, "N": 2048, "K": 4096}):
        assert_right(gpu, name, {**sizes, **extents}, [config], "tilelang")


@pytest.mark.gpu
@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("form", "tiles"),
    [
        ("roles", [(128, 128, 6), (128, 256, 4), (192, 128, 4)]),
        ("turns", [(128, 128, 4), (128, 256, 3), (192, 128, 3)]),
        ("pairs", [(128, 128, 4), (128, 256, 4), (192, 128, 4)]),
    ],
)
def test_tilelangs_roles_take_one_tile_after_another_on_a_gpu(
    gpu: LocalEvaluator, form: str, tiles: list[tuple[int, int, int]]
) -> None:
    # More tiles than multiprocessors, of a number of steps that the buffers do not divide, and edges within tiles.
    configs = [
        {
            **IN_ROLES, "VARIANT": form, "BLOCK_SIZE_M": m, "NUM_WARPS": m // 16, "BLOCK_SIZE_N": n,
            "NUM_STAGES": stages, "GROUP_SIZE_M": 8,
        }
        for m, n, stages in tiles
    ]  # fmt: skip
    assert_right(gpu, "a8w8_blockscale", {"M": 2057, "N": 4120, "K": 1040}, configs, "tilelang")


@pytest.mark.gpu
@pytest.mark.timeout(400)
@pytest.mark.parametrize(("m", "dtype"), [(3, "float16"), (500, "bfloat16"), (300, "float8_e4m3fn")])
def test_experts_are_right_on_a_gpu(gpu: LocalEvaluator, m: int, dtype: str) -> None:
    sizes = {"M": m, "N": 320, "K": 520, "E": 16, "TOP_K": 4, "DTYPE": dtype}
    assert_right(gpu, "moe", sizes, [{"BLOCK_SIZE_M": rows} for rows in (16, 64, 128)], "triton")


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        *(("gemm", {"DTYPE": dtype, "LAYOUT": "TN"}) for dtype in ("float16", "bfloat16", "float8_e4m3fn")),
        *(("gemm", {"DTYPE": "float16", "LAYOUT": layout}) for layout in ("TT", "NT", "NN")),
        ("a8w8_blockscale", {}),
    ],
)
def test_every_form_is_right_on_a_gpu(gpu: LocalEvaluator, name: str, sizes: dict[str, str]) -> None:
    forms = [("plain", 1, 128), ("plain", 2, 128), ("persistent", 1, 128), ("tma", 1, 128), ("tma", 1, 256)]
    configs = [
        {"VARIANT": variant, "SPLIT_K": split, "BLOCK_SIZE_M": 64, "BLOCK_SIZE_N": columns}
        for variant, split, columns in forms
    ]
    assert_right(gpu, name, {"M": 272, "N": 528, "K": 1040, **sizes}, configs, "triton")


@pytest.mark.gpu
@pytest.mark.timeout(400)
def test_wide_tiles_of_block_scales_are_right_on_a_gpu(gpu: LocalEvaluator) -> None:
    # The edges of all three extents lie within a tile and within a block of scales.
    common = {"BLOCK_SIZE_M": 128, "BLOCK_SIZE_K": 128, "NUM_WARPS": 8}
    tiles = [("tma_tile", 32, 5), ("tma_tile", 128, 4), ("tma_tile", 256, 3), ("tma_tile", 256, 4)]
    tiles += [("plain", 256, 4), ("persistent", 256, 4), ("tma", 256, 3)]
    configs = [{**common, "VARIANT": form, "BLOCK_SIZE_N": n, "NUM_STAGES": stages} for form, n, stages in tiles]
    assert_right(gpu, "a8w8_blockscale", {"M": 2057, "N": 2832, "K": 1040}, configs, "triton")


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("dtype", "layout"), [*(("float16", layout) for layout in ("TN", "TT", "NT", "NN")), ("float8_e4m3fn", "TN")]
)
def test_forms_with_descriptors_are_right_on_a_gpu(gpu: LocalEvaluator, dtype: str, layout: str) -> None:
    common = {"VARIANT": "tma_tile", "BLOCK_SIZE_K": 64, "NUM_WARPS": 8}
    configs = [
        {**common, "BLOCK_SIZE_M": m, "BLOCK_SIZE_N": n, "NUM_STAGES": stages}
        for m, n, stages in ((128, 256, 4), (256, 128, 4), (128, 128, 3))
    ]
    sizes = {"M": 2064, "N": 2832, "K": 1040, "DTYPE": dtype, "LAYOUT": layout}
    assert_right(gpu, "gemm", sizes, configs, "triton")
