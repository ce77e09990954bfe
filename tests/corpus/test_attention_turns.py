"""The attention kernel of groups that take turns: its values, whatever the order in which the groups go on."""

from __future__ import annotations

import random

import pytest
import torch
from kernelwright.core import Config, PythonKernel, Value
from kernelwright.corpus.kernels import ATTENTION_KERNEL
from kernelwright.evaluators.guards.source import find_violation
from kernelwright.evaluators.settings import AllowTorch
from kernelwright.tuners.schedule.attention import AttentionShape, Rates, attention_graph
from kernelwright.tuners.schedule.bounds import interval_bound
from kernelwright.tuners.schedule.modulo import shortest_schedule
from kernelwright.tuners.schedule.space import ScheduleSpace
from torch.nn import functional

from .warp_groups import load

KERNEL = PythonKernel.parse(ATTENTION_KERNEL.read_text())
SHAPE = AttentionShape(1, 2, 1, 200, 200, 64, 64)
SPACE = ScheduleSpace(lambda tiles: attention_graph(SHAPE, tiles, Rates()), SHAPE.tiles())
SHAPES = {
    "ragged": ((1, 2, 37, 16), (1, 1, 75, 16), 24, False),
    "causal": ((1, 1, 70, 16), (1, 1, 70, 16), 16, True),
    "one tile": ((1, 1, 5, 16), (1, 1, 9, 16), 16, False),
    "fewer keys than queries": ((1, 1, 50, 16), (1, 1, 20, 16), 16, True),
    "heads and batches": ((2, 3, 70, 16), (2, 1, 70, 16), 16, True),
}


def small(groups: int = 2, **config: Value) -> str:
    """Return the kernel with few rows and columns in a tile."""
    bound = KERNEL.bind({"BLOCK_M": 16 * groups, "THREADS": 128 * groups, "BLOCK_N": 16, **config})
    return bound.source.replace("ROWS = 64", "ROWS = 16")


def attend(source: str, shape: str, seed: int, groups: int = 2) -> tuple[torch.Tensor, torch.Tensor]:
    queries, keys, values, causal = SHAPES[shape]
    torch.manual_seed(seed)
    q, k, v = torch.randn(queries), torch.randn(keys), torch.randn(*keys[:3], values)
    found = load(source, seed, groups + 1)["ModelNew"](causal)(q, k, v)
    wanted = functional.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True)
    return found, wanted


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("depth", "groups"), [(1, 3), (2, 2), (3, 3)])
def test_values_in_an_order_of_the_groups_by_chance(shape: str, depth: int, groups: int) -> None:
    found, wanted = attend(small(groups, DEPTH=depth), shape, depth, groups)
    torch.testing.assert_close(found, wanted, atol=2e-3, rtol=2e-3)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("workers", "depth"), [(1, 1), (2, 2), (5, 3)])
def test_values_of_programs_that_take_one_tile_after_another(shape: str, workers: int, depth: int) -> None:
    groups = 2 + workers % 2
    source = small(groups, DEPTH=depth, WORKERS=workers, HEADS_ABREAST=workers, WAIT_IN_PLACE=True, BULK_STORE=True)
    torch.testing.assert_close(*attend(source, shape, workers, groups), atol=2e-3, rtol=2e-3)


def places(tiles: int, heads: int, causal: bool, **config: Value) -> list[tuple[int, int]]:
    place_of = load(small(**config))["place_of"]
    return [place_of(index, tiles, heads, causal) for index in range(tiles * heads)]


def test_heads_abreast_give_the_longest_tiles_first() -> None:
    assert places(3, 2, True) == [(2, 0), (1, 0), (0, 0), (2, 1), (1, 1), (0, 1)]
    assert places(3, 2, True, HEADS_ABREAST=8) == [(2, 0), (2, 1), (1, 0), (1, 1), (0, 0), (0, 1)]
    # The last section has one head.
    assert places(2, 3, False, HEADS_ABREAST=2) == [(0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (1, 2)]


@pytest.mark.parametrize("abreast", [1, 2, 3, 4, 5])
def test_each_tile_of_each_head_has_one_place(abreast: int) -> None:
    found = places(3, 5, True, HEADS_ABREAST=abreast)
    assert sorted(found) == [(tile, head) for tile in range(3) for head in range(5)]


def test_values_of_schedules_by_chance() -> None:
    rng = random.Random(0)
    programs = set()
    for seed in range(16):
        tiles = Config({**SPACE.some_tiles, "DEPTH": 2 + seed % 2})
        graph = SPACE.graph(tiles)
        ranks = {name: float(rng.randrange(8)) for name in graph.names}
        schedule, interval = shortest_schedule(graph, ranks, interval_bound(graph) + rng.choice([0, 4, 16, 64]))
        config = SPACE.config(tiles, schedule, interval)
        assert config in SPACE
        programs.add(SPACE.code(config)[1:])
        source = small(DEPTH=tiles["DEPTH"], INTERVAL=interval, **schedule)
        torch.testing.assert_close(*attend(source, "ragged", seed), atol=2e-3, rtol=2e-3)
    # The product with V before that with K, after it, and behind the softmax; V loaded first.
    assert len(programs) >= 8


BROKEN = {
    "keys are not waited for": ("T.barrier_wait(k_full[number % DEPTH], number // DEPTH % 2)", "pass"),
    "values count as read too early": ("T.wait_wgmma(0)\n", "T.wait_wgmma(1)\n"),
    "the producer waits for no reader": ("T.barrier_wait(empty[number % DEPTH], (number // DEPTH + 1) % 2)", "pass"),
    "a group that does not say that it has read": ("            if step == \"QK_DONE\":", "            if False:"),
    "one group is enough": ("k_empty = T.alloc_barrier([THREADS // 32]", "k_empty = T.alloc_barrier([128 // 32]"),
    "a wrong parity": ("(number // DEPTH + 1) % 2)", "number // DEPTH % 2)"),
    "nobody has the first turn": ("if group == groups - 1:", "if group == groups:"),
    "nobody takes the last turn": ("if group == 0:", "if group == 2:"),
    "both groups wait for the same turn": ("T.sync_threads(TURN + group, 256)", "T.sync_threads(TURN, 256)"),
}  # fmt: skip


def check_orders(source: str) -> None:
    for seed in range(3):
        torch.testing.assert_close(*attend(source, "ragged", seed), atol=2e-3, rtol=2e-3)


@pytest.mark.parametrize("defect", BROKEN)
def test_a_defect_is_seen(defect: str) -> None:
    before, after = BROKEN[defect]
    assert before in small()
    with pytest.raises(AssertionError):
        check_orders(small().replace(before, after))


BROKEN_IN_TURN = {
    "queries are overwritten while they are read": ("T.barrier_wait(q_empty[group], (lap + 1) % 2)", "pass"),
    "queries of the tile before": ("T.barrier_wait(q_full[group], lap % 2)", "T.barrier_wait(q_full[group], 0)"),
    "a group that does not say that it has read the queries": ("if block == blocks - 1:", "if block == blocks:"),
    "the queries count as read at the first tile of keys": ("if block == blocks - 1:", "if block == 0:"),
    "the phases begin again with each tile": ("before[0] = before[0] + blocks", "before[0] = 0"),
    "a result is overwritten before it has left": ("T.tma_store_wait(0)\n            T.sync", "T.sync"),
    "a tile that nobody takes": ("rounds = (total + programs - 1) // programs", "rounds = total // programs"),
}


def test_without_a_defect_no_order_matters() -> None:
    check_orders(small(WORKERS=3, BULK_STORE=True))


@pytest.mark.parametrize("defect", BROKEN_IN_TURN)
def test_a_defect_of_one_tile_after_another_is_seen(defect: str) -> None:
    before, after = BROKEN_IN_TURN[defect]
    source = small(WORKERS=3, BULK_STORE=True)
    assert before in source
    with pytest.raises(AssertionError):
        check_orders(source.replace(before, after))


def test_it_breaks_no_rule() -> None:
    assert find_violation(KERNEL.source, KERNEL, AllowTorch.NONE) is None
