"""The attention kernel of two groups that take turns: its values, whatever the order in which the groups go on."""

from __future__ import annotations

import pytest
import torch
from kernelwright.core import PythonKernel
from kernelwright.corpus.attention import KERNEL as SCHEDULED
from kernelwright.evaluators.guards.source import find_violation
from kernelwright.evaluators.settings import AllowTorch
from torch.nn import functional

from .warp_groups import load

KERNEL = PythonKernel.parse(SCHEDULED.with_name("ping_pong.py").read_text())
SMALL = KERNEL.bind({"BLOCK_N": 16}).source.replace("ROWS = 64", "ROWS = 16")
SHAPES = {
    "ragged": ((1, 2, 37, 16), (1, 1, 75, 16), 24, False),
    "causal": ((1, 1, 70, 16), (1, 1, 70, 16), 16, True),
    "one tile": ((1, 1, 5, 16), (1, 1, 9, 16), 16, False),
    "fewer keys than queries": ((1, 1, 50, 16), (1, 1, 20, 16), 16, True),
}


def attend(source: str, shape: str, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    queries, keys, values, causal = SHAPES[shape]
    torch.manual_seed(seed)
    q, k, v = torch.randn(queries), torch.randn(keys), torch.randn(*keys[:3], values)
    found = load(source, seed)["ModelNew"](causal)(q, k, v)
    wanted = functional.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True)
    return found, wanted


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("stages", [1, 2, 3])
def test_values_in_an_order_of_the_groups_by_chance(shape: str, stages: int) -> None:
    source = SMALL.replace("STAGES = 2", f"STAGES = {stages}")
    found, wanted = attend(source, shape, seed=stages)
    torch.testing.assert_close(found, wanted, atol=2e-3, rtol=2e-3)


BROKEN = {
    "keys are not waited for": ("T.barrier_wait(k_full[block % STAGES], block // STAGES % 2)", "pass"),
    "values count as read too early": ("T.wait_wgmma(0)\n            T.w", "T.wait_wgmma(1)\n            T.w"),
    "the producer waits for no reader": ("T.barrier_wait(v_empty[block % STAGES], (block // STAGES + 1) % 2)", "pass"),
    "a wrong parity": ("(block // STAGES + 1) % 2)", "block // STAGES % 2)"),
    "nobody takes the last turn": ("if group == 0:", "if group == 2:"),
    "both groups wait for the same turn": ("T.sync_threads(TURNS + group, 256)", "T.sync_threads(TURNS, 256)"),
}  # fmt: skip


def check_orders(source: str) -> None:
    for seed in range(3):
        torch.testing.assert_close(*attend(source, "ragged", seed), atol=2e-3, rtol=2e-3)


@pytest.mark.parametrize("defect", BROKEN)
def test_a_defect_is_seen(defect: str) -> None:
    before, after = BROKEN[defect]
    assert before in SMALL
    with pytest.raises(AssertionError):
        check_orders(SMALL.replace(before, after))


def test_it_breaks_no_rule() -> None:
    assert find_violation(KERNEL.source, KERNEL, AllowTorch.NONE) is None
