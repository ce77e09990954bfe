"""The scheduled attention kernel is lowered for sm_90a; its constants are the schedule that the model means."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from kernelwright.core import Config, PythonKernel
from kernelwright.corpus.kernels import ATTENTION_KERNEL
from kernelwright.corpus.problems import ATTENTION, find_problem
from kernelwright.evaluators.guards.source import find_violation
from kernelwright.evaluators.settings import AllowTorch
from kernelwright.tuners.schedule.attention import AttentionShape, Rates, attention_graph
from kernelwright.tuners.schedule.graph import aligned, order_and_stage, versions
from kernelwright.tuners.schedule.modulo import modulo_schedule
from kernelwright.tuners.schedule.space import ScheduleSpace

SHAPE = AttentionShape(1, 4, 4, 512, 512, 64, 64)
SPACE = ScheduleSpace(lambda tiles: attention_graph(SHAPE, tiles, Rates()), SHAPE.tiles())
PLAIN = {"ROLES": False, "TURNS": False, "INTERVAL": 40, "COPY_K": 24, "QK": 40, "ROW_MAX": 49, "SCALE": 67, "EXP": 51}
PLAIN |= {"ROW_SUM": 72, "CAST": 67, "RESCALE": 71, "COPY_V": 30, "PV": 72}
"""Loads ahead, and the product with V beside the sums."""
BEHIND = {**PLAIN, "P_SHARED": True, "RESCALE": 111, "PV": 112}
"""The product with V one stage behind the softmax."""
AHEAD = {**PLAIN, "INTERVAL": 34, "COPY_K": 0, "QK": 16, "ROW_MAX": 25, "EXP": 27, "COPY_V": 6, "CAST": 43, "SCALE": 43}
"""The next product with K, and most of its softmax, before the product with V."""
AHEAD |= {"RESCALE": 47, "ROW_SUM": 48, "PV": 58}
RAGGED = {"SQ": 200, "SK": 300, "HK": 2, "causal": True, "dtype": "bfloat16"}
BEFORE_SOFTMAX = {
    "ROLES": True,
    "TURNS": False,
    "INTERVAL": 64,
    "COPY_K": 0,
    "QK": 0,
    "PV": 73,
    "COPY_V": 8,
    "ROW_MAX": 18,
    "EXP": 20,
}
"""With roles: the next product with K, the product with V, and the softmax under both."""
BEFORE_SOFTMAX |= {"SCALE": 36, "CAST": 40, "RESCALE": 48, "ROW_SUM": 52}
CASES = [
    {"sizes": RAGGED, "config": {"BLOCK_N": 96, **AHEAD}},
    {"sizes": {"D": 16, "DV": 16}, "config": {"BLOCK_N": 64, **BEHIND}},
    {"sizes": {}, "config": {**PLAIN, "ROLES": True, "DEPTH": 3, "CONSUMER_REGS": 208}},
    {"sizes": {"HK": 2, "SK": 300}, "config": BEFORE_SOFTMAX},
    {"sizes": {}, "config": {}},
    {"sizes": RAGGED, "config": {"BLOCK_M": 192, "THREADS": 384, "CONSUMER_REGS": 160, "COPY_V": 0, "COPY_K": 1}},
    {"sizes": {"causal": True}, "config": {"WAIT_IN_PLACE": True, "HEADS_ABREAST": 3, "WORKERS": 6}},
    {"sizes": {}, "config": {**BEHIND, "ROW_MAX": 89, "SCALE": 90, "EXP": 91, "CAST": 107, "ROW_SUM": 112}},
    {"sizes": {}, "config": {**BEFORE_SOFTMAX, "DEPTH": 1, "COPY_K": 9}},
]
"""The last but one needs the scores in two stages; in the last one V is loaded before K, and there is room for one."""


def kernel() -> PythonKernel:
    return PythonKernel.parse(ATTENTION_KERNEL.read_text())


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("code")
    script = Path(__file__).with_name("cross_compile_attention.py")
    command = [sys.executable, str(script), json.dumps(CASES), str(folder)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert run.returncode == 0, run.stderr[-3000:]
    found = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]
    for number, compiled in enumerate(found):
        if "error" not in compiled:
            compiled["code"] = (folder / f"case_{number}.cu").read_text()
    return found


def test_it_compiles_for_sm_90a_and_each_schedule_to_other_code(cases: list[dict[str, Any]]) -> None:
    *good, in_two_stages, _ = cases
    assert len({row["digest"] for row in good}) == len(good)
    assert "error" in in_two_stages
    # The compiler keeps as many versions as the model says: beside Q one of K and two of V; or three of V, and two of
    # the probabilities and the scales.
    assert good[0]["shared"] == 2 * 64 * (128 + 3 * 96)
    assert good[1]["shared"] == 2 * 16 * (128 + 4 * 64) + 2 * (2 * 128 * 64 + 4 * 128)


def test_roles_have_their_own_programs_registers_and_barriers(cases: list[dict[str, Any]]) -> None:
    plain, ahead = cases[2], cases[3]
    assert plain["shared"] == 2 * 64 * (128 + 2 * 3 * 128)
    for row, depth, registers in ((plain, 3, 208), (ahead, 2, 240)):
        code = row["code"]
        assert f"warpgroup_reg_alloc<{registers}>" in code and "warpgroup_reg_dealloc<24>" in code
        assert all(f"uint64_t {name}_mem[{depth}]" in code for name in ("k_full", "k_empty", "v_full", "v_empty"))
        computing, loading = code[code.index("reg_alloc<") :].split("reg_dealloc<", 1)
        assert "tma_load" in loading and "tma_load" not in computing and "wgmma" not in loading
    # The product with V is under way while the softmax runs; in the first iteration there is none to leave.
    assert "wait_wgmma<1>" not in plain["code"]
    body = ahead["code"].rpartition("for (int block")[0]
    steps = re.findall(r"wgmma_[sr]s<|wait_wgmma<.>|k_empty|exp2f|v_empty", body[body.rindex("for (int block = 1") :])
    assert list(dict.fromkeys(steps)) == [
        "wgmma_ss<", "wgmma_rs<", "wait_wgmma<1>", "k_empty", "exp2f", "wait_wgmma<0>", "v_empty"
    ]  # fmt: skip


def test_the_compilers_refusal_of_roles_has_its_reason(cases: list[dict[str, Any]]) -> None:
    assert "role load blocked at" in cases[-1]["error"] and 'PRODUCER_ACQUIRE("v")' in cases[-1]["error"]


def test_the_groups_in_turns_have_what_their_structure_needs(cases: list[dict[str, Any]]) -> None:
    for case, groups, registers in ((cases[4], 2, 240), (cases[5], 3, 160)):
        code = case["code"]
        assert (
            code.count(f"warpgroup_reg_alloc<{registers}>") == groups and code.count("warpgroup_reg_dealloc<24>") == 1
        )
        assert code.count("__syncthreads()") == 1  # after the barriers are made, and none among the groups
        turns = re.findall(r"__(sync_thread_partial|named_barrier_arrive)\((\d+), 256\)", code)
        expected = []
        for group in range(groups):
            turn = [("sync_thread_partial", str(8 + group)), ("named_barrier_arrive", str(8 + (group + 1) % groups))]
            lent = [("named_barrier_arrive", "8")] if group == groups - 1 else []
            expected += [*lent, *turn, *turn, *([("sync_thread_partial", "8")] if group == 0 else [])]
        assert turns == expected
        assert code.count("wait_wgmma<1>") == groups
        assert code.count("wgmma_rs<") == code.count("wgmma_ss<") == 2 * groups
    # The queries are loaded after the first tile of what is loaded first.
    loads = [re.findall(r"tma_load\((q|k|v)_desc", case["code"]) for case in cases[4:6]]
    assert loads == [[*"kqqv", *"kv"], [*"vqqqk", *"vk"]]


def test_programs_take_one_tile_after_another_and_the_wait_stands_behind_a_branch(cases: list[dict[str, Any]]) -> None:
    once, often = cases[4]["code"], cases[6]["code"]
    # 16 tiles for 6 programs: each looks at three places, whose queries wait until the ones before are read.
    loops = re.findall(r"for \(int lap\w* = 0; lap\w* < (\d+);", often)
    assert loops == ["3"] * 3 and "int lap" not in once
    assert len(re.findall(r"q_empty\[\d\]\.wait", often)) == 2 and ".arrive();" in often
    assert "q_empty[0].wait" not in once
    # Between the exponentials and the wait for PV: the scores are fixed, and a barrier is asked again.
    for group, code in enumerate(often.split("reg_alloc<240>")[1:]):
        body = code[code.index("wait_wgmma<1>") :]
        steps = re.findall(r"exp2f|fence_operand\(reinterpret_cast<float\*>\(s|v_full\[[^;]*wait|wait_wgmma<0>", body)
        last = steps.index("wait_wgmma<0>")
        assert steps[last - 3] == "exp2f" and "v_full" in steps[last - 1] and "fence" in steps[last - 2], group


def test_it_breaks_no_rule() -> None:
    assert find_violation(kernel().source, kernel(), AllowTorch.NONE) is None


def test_the_kernels_own_constants_are_a_member_of_the_space() -> None:
    config = kernel().config
    SPACE.require(Config({name: config[name] for name in SPACE.names}))


ALONE = {"ROLES": False, "TURNS": False, "BULK_STORE": False}


@pytest.mark.parametrize(
    ("dims", "bulk"), [((64, 64), True), ((128, 128), True), ((160, 160), False), ((192, 128), False)]
)
def test_a_search_begins_in_turns_and_with_bulk_stores_where_they_fit(dims: tuple[int, int], bulk: bool) -> None:
    start = AttentionShape(1, 4, 4, 512, 512, *dims).tiles().default
    assert (start["BLOCK_M"], start["BLOCK_N"], start["TURNS"], start["BULK_STORE"]) == (128, 128, True, bulk)


@pytest.mark.parametrize(
    ("dim", "tiles", "fits"),
    [
        (128, {"BLOCK_M": 192, "THREADS": 384, **ALONE}, False),  # 168 registers, of which results take 160
        (64, {"BLOCK_M": 192, "THREADS": 384, **ALONE}, True),
        (64, {"BLOCK_M": 192, "THREADS": 384, "ROLES": True, "CONSUMER_REGS": 0}, False),
        (64, {"BLOCK_M": 192, "THREADS": 384, "ROLES": True, "CONSUMER_REGS": 160}, True),
        (128, {"ROLES": True, "CONSUMER_REGS": 0}, False),
        (128, {"BLOCK_N": 176, "BULK_STORE": False}, True),
        (128, {"BLOCK_N": 176}, False),  # shared memory
        (128, {"BLOCK_N": 176, "DEPTH": 3}, False),  # shared memory
        (128, {"BLOCK_M": 64, "THREADS": 128, **ALONE}, True),
        (128, {"BLOCK_M": 64, "THREADS": 128, "CONSUMER_REGS": 0}, False),  # one group has nobody to take turns with
    ],
)
def test_tiles_are_those_whose_results_fit_in_the_registers(dim: int, tiles: dict[str, Any], fits: bool) -> None:
    space = AttentionShape(1, 4, 4, 512, 512, dim, dim).tiles()
    assert (Config({**space.default, **tiles}) in space) == fits


@pytest.mark.parametrize("tiles", list(SPACE.tiles or [])[::5], ids=str)
def test_model_and_kernel_agree_on_order_and_stage(tiles: Config) -> None:
    graph = SPACE.graph(tiles)
    interval = graph.sequential()[1] - 3
    schedule = aligned(graph, modulo_schedule(graph, interval) or {}, interval)
    assert schedule is not None
    bound = kernel().bind({**tiles, **schedule, "INTERVAL": interval})
    module: dict[str, object] = dict(bound.constants)
    exec(bound.source[bound.source.index("def order_and_stage") : bound.source.index("@functools")], module)
    order, stage = module["order_and_stage"]()  # type: ignore[operator]
    first = [0, 1, 3, 5, 6, 7, 9, 10, 11, 12]  # the first statement of each operation
    model, stages = order_and_stage(graph, schedule, interval)
    assert [sorted(order[i] for i in first).index(order[i]) for i in first] == list(model)
    assert [stage[i] for i in first] == list(stages)


def test_versions_of_the_product_behind() -> None:
    config = Config({**kernel().config, **BEHIND})
    mine = {name: config[name] for name in SPACE.names}
    kept = versions(SPACE.graph(SPACE.tiles_of(mine)), *SPACE.schedule_of(mine))
    assert kept == {**dict.fromkeys(SPACE.operations, 1), "SCALE": 2, "CAST": 2, "COPY_V": 3}


def test_the_reference_at_sizes_that_no_tile_divides() -> None:
    import torch
    from kernelwright.evaluators.workers.modules import ProblemModule

    problem = find_problem(str(ATTENTION)).read().at("tiny")
    module = ProblemModule(str(ATTENTION), {**problem.sizes, "causal": True, "head_dim_kv": 32}, "cpu")
    q, k, v = module.inputs(0)
    assert (q.shape, k.shape, v.shape) == ((1, 4, 200, 64), (1, 2, 200, 64), (1, 2, 200, 32))
    source: dict[str, object] = {}
    exec(ATTENTION.read_text(), source)
    (causal,) = module.init_inputs()
    found = source["Model"](causal)(q, k, v)  # type: ignore[operator]
    k, v = (x.repeat_interleave(2, dim=1) for x in (k, v))
    scores = (q.float() @ k.float().transpose(-1, -2)) / 8
    scores = scores.masked_fill(torch.ones(200, 200, dtype=torch.bool).triu(1), float("-inf"))
    torch.testing.assert_close(found.float(), scores.softmax(-1) @ v.float(), atol=1e-2, rtol=1e-2)
