"""The attention kernel of groups that take turns: its values, whatever the order in which the groups go on."""

from __future__ import annotations

import random

import pytest
import torch
from kernelwright.core import Config, PythonKernel, Value
from kernelwright.corpus.attention import KERNEL as FILE
from kernelwright.evaluators.guards.source import find_violation
from kernelwright.evaluators.settings import AllowTorch
from kernelwright.tuners.schedule.attention import AttentionShape, Rates, attention_graph
from kernelwright.tuners.schedule.bounds import interval_bound
from kernelwright.tuners.schedule.modulo import shortest_schedule
from kernelwright.tuners.schedule.space import ScheduleSpace
from torch.nn import functional

from .warp_groups import load

KERNEL = PythonKernel.parse(FILE.read_text())
SHAPE = AttentionShape(1, 2, 1, 200, 200, 64, 64)
SPACE = ScheduleSpace(lambda tiles: attention_graph(SHAPE, tiles, Rates()), SHAPE.tiles())
SHAPES = {
    "ragged": ((1, 2, 37, 16), (1, 1, 75, 16), 24, False),
    "causal": ((1, 1, 70, 16), (1, 1, 70, 16), 16, True),
    "one tile": ((1, 1, 5, 16), (1, 1, 9, 16), 16, False),
    "fewer keys than queries": ((1, 1, 50, 16), (1, 1, 20, 16), 16, True),
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
@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("groups", [2, 3])
def test_values_in_an_order_of_the_groups_by_chance(shape: str, depth: int, groups: int) -> None:
    found, wanted = attend(small(groups, DEPTH=depth), shape, depth, groups)
    torch.testing.assert_close(found, wanted, atol=2e-3, rtol=2e-3)


def test_values_of_schedules_by_chance() -> None:
    rng = random.Random(0)
    programs = set()
    for seed in range(24):
        tiles = Config({**SPACE.some_tiles, "DEPTH": 1 + seed % 3})
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
    "keys are not waited for": ("T.barrier_wait(k_full[block % DEPTH], block // DEPTH % 2)", "pass"),
    "values count as read too early": ("T.wait_wgmma(0)\n", "T.wait_wgmma(1)\n"),
    "the producer waits for no reader": ("T.barrier_wait(empty[block % DEPTH], (block // DEPTH + 1) % 2)", "pass"),
    "a group that does not say that it has read": ("            if step == \"QK_DONE\":", "            if False:"),
    "one group is enough": ("k_empty = T.alloc_barrier([THREADS // 32]", "k_empty = T.alloc_barrier([128 // 32]"),
    "a wrong parity": ("(block // DEPTH + 1) % 2)", "block // DEPTH % 2)"),
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


def test_it_breaks_no_rule() -> None:
    assert find_violation(KERNEL.source, KERNEL, AllowTorch.NONE) is None
