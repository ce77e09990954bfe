"""What is read from names and limits, with the limits of an H200."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from kernelwright.core import Config, MatrixProduct, SearchSpace, SpaceError
from kernelwright.core.expressions import Expression
from kernelwright.tuners.hardware import ParameterRoles, constraints, prune
from kernelwright.tuners.source_products import multiplies

from .devices import CPU, GPU, LIMITS, TILELANG, TILES, TRITON

ROOT = Path(__file__).parents[2]
NAMES = ("BLOCK_M", "BLOCK_N", "BLOCK_K", "NUM_WARPS", "NUM_STAGES", "GROUP_M", "SPLIT_K")
ACCUMULATORS = LIMITS.described.accumulators


@pytest.mark.parametrize(
    ("names", "roles"),
    [
        (NAMES, ParameterRoles("BLOCK_M", "BLOCK_N", "BLOCK_K", "NUM_WARPS", None, "NUM_STAGES", "GROUP_M", "SPLIT_K")),
        (("BM", "BN", "BK", "THREADS"), ParameterRoles("BM", "BN", "BK", threads="THREADS")),
        (
            ("BLOCK_SIZE_M", "num_warps", "num_stages"),
            ParameterRoles("BLOCK_SIZE_M", warps="num_warps", stages="num_stages"),
        ),
        (
            ("TILE_M", "TILE_N", "TILE_K", "GROUP_SIZE_M"),
            ParameterRoles("TILE_M", "TILE_N", "TILE_K", group="GROUP_SIZE_M"),
        ),
        (("BLOCK_M", "BM"), ParameterRoles("BLOCK_M")),
        (
            ("BLOCK_CO", "BLOCK_P", "BLOCK_CI", "NORM_NUM_WARPS", "CONV_NUM_WARPS", "CONV_NUM_STAGES"),
            ParameterRoles("BLOCK_P", "BLOCK_CO", "BLOCK_CI", "CONV_NUM_WARPS", stages="CONV_NUM_STAGES"),
        ),
        (
            ("NUM_WARPS_0", "XBLOCK_0", "NUM_WARPS_12", "BLOCK_M_12", "BLOCK_N_12", "BLOCK_K_12", "SPLIT_K"),
            ParameterRoles("BLOCK_M_12", "BLOCK_N_12", "BLOCK_K_12", "NUM_WARPS_12", split="SPLIT_K"),
        ),
        (("BM_0", "BN_0", "BK_0", "BM_1", "BN_1", "BK_1", "WARPS_1"), ParameterRoles()),
        (("BM_0", "BN_1", "BK_1", "_0", "0"), ParameterRoles()),
        (("BM", "BN", "BK", "BM_1", "BN_1", "BK_1"), ParameterRoles("BM", "BN", "BK")),
        (("BLOCK", "BLOCKS_M", "M", "XBLOCK_M", "WARPSPEED", "KEY"), ParameterRoles()),
        ((), ParameterRoles()),
    ],
)
def test_roles_by_names(names: tuple[str, ...], roles: ParameterRoles) -> None:
    assert ParameterRoles.of(names) == roles


def test_names_of_a_users_function_begin_with_the_kernels() -> None:
    """Where its texts use the plain name; what the code chooses itself is 0, and limits nothing."""
    long = ("PRODUCT_BLOCK_M", "PRODUCT_BLOCK_N", "PRODUCT_BLOCK_K", "NUM_WARPS", "PRODUCT_NUM_STAGES")
    roles = ParameterRoles.among(long, {"_product", "scale"})
    assert roles == ParameterRoles(*long[:4], None, long[4])
    assert roles.own({"_product"}) == ParameterRoles("BLOCK_M", "BLOCK_N", "BLOCK_K", "NUM_WARPS", None, "NUM_STAGES")
    assert ParameterRoles.among((*long, "OTHER_BLOCK_M", "OTHER_BLOCK_N"), {"_product", "other"}).m is None
    assert ParameterRoles.among((*long, "BLOCK_M"), {"_product"}) == ParameterRoles("BLOCK_M", warps="NUM_WARPS")
    assert ParameterRoles.among(long, {"scale"}) == ParameterRoles(warps="NUM_WARPS")


def test_shared_memory_limits_parameters_of_a_users_function() -> None:
    names = ("PRODUCT_BLOCK_M", "PRODUCT_BLOCK_N", "PRODUCT_BLOCK_K", "NUM_WARPS", "PRODUCT_NUM_STAGES")
    values = "".join(f"{name} = {value}\n" for name, value in zip(names, (64, 64, 0, 4, 3), strict=True))
    source = (
        f'{values}\n__file__ = "ops.py"\n\ndef _product(a):\n    tl.dot(a, a)\n\n__file__ = "<call>"\nimport torch\n'
    )
    kernel = replace(TRITON, source=source)
    *_, shared = constraints(kernel, names, GPU)
    assert shared.startswith("PRODUCT_BLOCK_K == 0 or (PRODUCT_BLOCK_M + PRODUCT_BLOCK_N) * PRODUCT_BLOCK_K * ")
    assert not Expression(shared)({**dict.fromkeys(names, 4), "PRODUCT_BLOCK_M": 1024, "PRODUCT_BLOCK_K": 512})
    assert Expression(shared)({**dict.fromkeys(names, 4), "PRODUCT_BLOCK_M": 1024, "PRODUCT_BLOCK_K": 0})


def test_a_tile_needs_all_three_sides() -> None:
    assert ParameterRoles.of(NAMES).tiled
    assert not ParameterRoles.of(("BLOCK_M", "BLOCK_N")).tiled


def test_threads_of_a_block() -> None:
    assert ParameterRoles.of(("NUM_WARPS", "THREADS")).thread_count(32) == "NUM_WARPS * 32"
    assert ParameterRoles.of(("THREADS",)).thread_count(32) == "THREADS"
    assert ParameterRoles.of(("BLOCK",)).thread_count(32) is None


@pytest.mark.parametrize(
    ("source", "does"),
    [("tl.dot(a, b)", True), ("T.gemm(a, b, c)", True), ("tl.dot_scaled(a, b)", True), ("dot = a + b", False)],
)
def test_multiplying_is_read_from_the_calls(source: str, does: bool) -> None:
    assert multiplies(replace(TRITON, source=source)) is does


def test_a_tile_whose_depth_is_no_parameter_needs_registers_too() -> None:
    """128 x 512 results in one warp compile for two minutes, and spill."""
    names = ("BLOCK_M", "BLOCK_N", "NUM_WARPS", "NUM_STAGES")
    assert constraints(TRITON, names, GPU)[1:] == [f"BLOCK_M * BLOCK_N <= NUM_WARPS * 32 * {ACCUMULATORS}"]
    assert len(constraints(replace(TRITON, source="x = a + b"), names, GPU)) == 1


def test_constraints_of_triton() -> None:
    threads, registers, shared = constraints(TRITON, NAMES, GPU)
    assert threads == "NUM_WARPS * 32 <= 1024"
    assert registers == f"BLOCK_M * BLOCK_N <= NUM_WARPS * 32 * {ACCUMULATORS}"
    space = {"BLOCK_M": [32, 64], "BLOCK_N": [64], "BLOCK_K": [256], "NUM_WARPS": [4], "NUM_STAGES": [1, 2, 3, 4, 5]}
    left = SearchSpace.of(space, [shared])
    # (m + n) * k * 2 bytes: 49152 with 32 rows, of which stages - 1 fit; 65536 with 64 rows, of which stages fit.
    assert {(c["BLOCK_M"], c["NUM_STAGES"]) for c in left} == {
        *((32, s) for s in (1, 2, 3, 4, 5)),
        *((64, s) for s in (1, 2, 3)),
    }


def test_where_warps_are_unknown_the_fewer_buffers_count() -> None:
    """A kernel may launch two warps, and then Triton keeps one buffer less."""
    names = tuple(name for name in NAMES if name != "NUM_WARPS")
    assert constraints(TRITON, names, GPU) == ["(BLOCK_M + BLOCK_N) * BLOCK_K * 2 * max(NUM_STAGES - 1, 1) <= 232448"]


ASKED = [
    # capability, operand, m, n, k, warps, stages, and how many tiles of both operands are in shared memory
    (80, "fp16", 64, 64, 32, 4, 4, 3),
    (80, "fp16", 64, 64, 32, 4, 1, 1),
    (90, "fp16", 64, 64, 32, 4, 4, 4),
    (90, "fp16", 64, 64, 32, 2, 4, 3),
    (90, "fp16", 32, 64, 32, 4, 4, 3),
    (90, "fp32", 64, 64, 32, 4, 4, 3),
    (120, "fp16", 64, 64, 32, 4, 4, 3),
]
COMPILE = """
import importlib.util, json, sys
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

def shared_bytes(capability, operand, m, n, k, warps, stages):
    path, name = sys.argv[1:3] if operand == "fp16" else sys.argv[3:5]
    spec = importlib.util.spec_from_file_location(operand, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    function = getattr(module, name)
    constants = {"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "GROUP_M": 8}
    constants = {p.name: constants[p.name] for p in function.params if p.is_constexpr}
    pointer = {True: "*" + operand, False: "i32"}
    signature = {
        p.name: "constexpr" if p.is_constexpr else pointer[p.name.endswith("_ptr")] for p in function.params
    }
    # Sizes and addresses that 16 divides, without which nothing is fetched asynchronously.
    attributes = {(i,): [["tt.divisibility", 16]] for i, p in enumerate(function.params) if not p.is_constexpr}
    source = ASTSource(fn=function, signature=signature, constexprs=constants, attrs=attributes)
    options = {"num_warps": warps, "num_stages": stages}
    return triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options).metadata.shared

print(json.dumps([shared_bytes(*shape) for shape in json.loads(sys.argv[5])]))
"""


def test_shared_memory_is_what_triton_takes(tmp_path: Path) -> None:
    """Compiled for GPUs that are not there: what takes as much as there is must be kept, what takes more, dropped."""
    script = tmp_path / "compile.py"
    script.write_text(COMPILE)
    kernels = [ROOT / "benchmarks/gemm/triton_fp16.py", "gemm_kernel"]
    kernels += [ROOT / "corpus/kernels/triton/level1/1_1.py", "matmul_kernel"]
    command = [sys.executable, script, *kernels, json.dumps([pair[:-1] for pair in ASKED])]
    environment = {**os.environ, "TRITON_CACHE_DIR": str(tmp_path / "cache")}
    environment.pop("TRITON_INTERPRET", None)
    run = subprocess.run(list(map(str, command)), env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[-2000:]
    for asked, taken in zip(ASKED, json.loads(run.stdout), strict=True):
        capability, operand, m, n, k, warps, stages, tiles = asked
        element_bytes = int(operand[2:]) // 8
        assert taken == tiles * (m + n) * k * element_bytes, asked
        config = dict(zip(NAMES, (m, n, k, warps, stages), strict=False))
        product = MatrixProduct(m=4096, n=4096, k=4096, element_bytes=element_bytes)
        for there_is, fits in ((taken, True), (taken - 1, False)):
            limits = LIMITS.model_copy(update={"architecture": f"sm_{capability}", "shared_bytes": there_is})
            profile = GPU.model_copy(update={"limits": limits, "product": product})
            shared = constraints(TRITON, NAMES, profile)[-1]
            assert bool(Expression(shared)(config)) is fits, asked


def test_constraints_of_tilelang() -> None:
    names = ("BLOCK_M", "BLOCK_N", "BLOCK_K", "THREADS", "STAGES")
    assert constraints(TILELANG, names, GPU) == [
        "THREADS <= 1024",
        f"BLOCK_M * BLOCK_N <= THREADS * {ACCUMULATORS}",
        "(BLOCK_M + BLOCK_N) * BLOCK_K * 2 * max(STAGES, 1) <= 232448",
    ]


def test_constraints_without_stages() -> None:
    assert constraints(TILELANG, ("BM", "BN", "BK"), GPU) == ["(BM + BN) * BK * 2 <= 232448"]


def test_what_is_no_product_of_tiles_has_a_limit_of_threads_only() -> None:
    assert constraints(replace(TRITON, source="tl.sum(a)"), NAMES, GPU) == ["NUM_WARPS * 32 <= 1024"]
    assert constraints(TRITON, ("BLOCK", "THREADS"), GPU) == ["THREADS <= 1024"]
    assert constraints(TRITON, ("BLOCK",), GPU) == []


def test_without_a_known_product_shared_memory_is_not_evaluated() -> None:
    found = constraints(TRITON, NAMES, GPU.model_copy(update={"product": None}))
    assert len(found) == 2
    assert not any("232448" in text for text in found)


def test_a_cpu_has_no_constraints() -> None:
    assert constraints(TILELANG, NAMES, CPU) == []
    assert prune(TILES, TILELANG, CPU) == (TILES, [])


@pytest.mark.parametrize("capability", [80, 90])
def test_pruning_keeps_what_fits(capability: int) -> None:
    profile = GPU.model_copy(update={"limits": LIMITS.model_copy(update={"architecture": f"sm_{capability}"})})
    pruned, rules = prune(TILES, TRITON, profile)
    assert rules == constraints(TRITON, TILES.names, profile)
    assert pruned.names == TILES.names
    kept = set(pruned)
    assert kept < set(TILES)
    for config in TILES:
        m, n, k, stages = (int(config[name]) for name in ("BLOCK_M", "BLOCK_N", "BLOCK_K", "NUM_STAGES"))
        buffers = stages if m >= 64 and int(config["NUM_WARPS"]) >= 4 and capability == 90 else max(stages - 1, 1)
        right = (m + n) * k * 2 * buffers <= LIMITS.shared_bytes
        right = right and m * n <= int(config["NUM_WARPS"]) * 32 * ACCUMULATORS
        assert (config in kept) == right, config


def test_pruning_twice_adds_nothing() -> None:
    pruned, _ = prune(TILES, TRITON, GPU)
    assert prune(pruned, TRITON, GPU) == (pruned, [])


def test_nothing_fits() -> None:
    space = SearchSpace.of({"BLOCK_M": [512], "BLOCK_N": [512], "BLOCK_K": [256], "NUM_WARPS": [4]})
    with pytest.raises(SpaceError, match="no config of the space fits the device: it must satisfy NUM_WARPS") as caught:
        prune(space, TRITON, GPU)
    assert "smaller tiles" in str(caught.value)


def test_pruning_keeps_the_kernels_own_configs() -> None:
    space = SearchSpace.of({"BM": [64, 256], "BN": [64, 256], "BK": [64], "WARPS": [4], "STAGES": [2, 5]})

    def config(m: int, n: int, stages: int) -> Config:
        return Config({"BM": m, "BN": n, "BK": 64, "WARPS": 4, "STAGES": stages})

    large, small = config(256, 256, 5), config(64, 64, 2)
    without, rules = prune(space, TRITON, GPU)
    assert large not in without and small in without
    pruned, exempting = prune(space, TRITON, GPU, [large, small, config(512, 64, 2)])
    # What the constraint does not name may differ: here registers and shared memory are both exceeded, each by itself.
    assert set(pruned) == {*without, large, config(256, 256, 2)}
    assert exempting[0] == rules[0]
    assert exempting[1] == f"{rules[1]} or BM == 256 and BN == 256 and WARPS == 4"
    assert prune(space, TRITON, GPU, [small])[1] == rules
