"""Inputs: other distributions, and contents that no timed call has seen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from kernelwright.evaluators.correctness.distributions import DISTRIBUTIONS, draw, vary_constants
from kernelwright.evaluators.correctness.inputs import Buffers, Feed
from kernelwright.evaluators.workers import memory
from kernelwright.evaluators.workers.modules import ProblemModule
from torch import nn

SOURCE = """
import torch
from torch import nn
class Model(nn.Module): ...
def get_inputs(): return [{inputs}]
def get_init_inputs(): return []
"""


def problem(tmp_path: Path, inputs: str = "torch.rand(64, 48), torch.arange(9), 3") -> ProblemModule:
    path = tmp_path / "problem.py"
    path.write_text(SOURCE.format(inputs=inputs))
    return ProblemModule(path, {}, "cpu")


def test_each_distribution_changes_floating_tensors_alone_and_the_same_way_again(tmp_path: Path) -> None:
    module = problem(tmp_path)
    plain, index, number = draw(module, 1)
    for name in DISTRIBUTIONS:
        changed, same_index, same_number = draw(module, 1, name)
        assert changed.shape == plain.shape and not torch.equal(changed, plain), name
        assert torch.equal(same_index, index) and same_number == number
        assert torch.equal(draw(module, 1, name)[0], changed)
    assert float(draw(module, 1, "signs")[0].min()) < 0 < float(draw(module, 1, "signs")[0].max())
    assert float(draw(module, 1, "large")[0].max()) > 32
    assert int((draw(module, 1, "structure")[0] == 0).sum()) >= plain.numel() // 4


def test_buffers_stay_where_they_are(tmp_path: Path) -> None:
    buffers, module = Buffers(), problem(tmp_path)
    first = buffers.fill(draw(module, 1))
    where, contents = first[0].data_ptr(), first[0].clone()
    second = buffers.fill(draw(module, 2))
    assert second[0].data_ptr() == where and not torch.equal(second[0], contents)


@pytest.mark.parametrize("name", ["mul_", "copy_"])
def test_a_buffer_that_was_given_a_method_of_its_own_is_replaced(tmp_path: Path, name: str) -> None:
    buffers, module = Buffers(), problem(tmp_path)
    (held, *_) = buffers.fill(draw(module, 1))
    setattr(held, name, lambda *_: pytest.fail("a candidate's code ran while inputs were written"))
    (fresh, *_) = buffers.fill(draw(module, 2))
    assert fresh is not held


@pytest.mark.parametrize("inputs", ["torch.randn(6, 5), torch.arange(9)", "torch.randint(0, 99, (50,))"])
def test_no_two_timed_calls_see_the_same_and_each_can_be_made_again(tmp_path: Path, inputs: str) -> None:
    module = problem(tmp_path, inputs)
    feed = Feed(module)
    feed.restart(7)
    seen = [feed.next()[1][0].clone() for _ in range(6)]
    assert all(not torch.equal(a, b) for i, a in enumerate(seen) for b in seen[:i])
    assert all(torch.equal(Feed(module).at(7, number)[0], value) for number, value in enumerate(seen, start=1))


def test_large_inputs_of_a_call_are_drawn_once_and_changed_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = problem(tmp_path, "torch.randn(6, 5)")
    feed, expected, drawn = Feed(one), Feed(one).at(7, 3)[0], []
    really = one.inputs

    def inputs(seed: int) -> list[Any]:
        drawn.extend(really(seed))
        return drawn[-1:]

    monkeypatch.setattr(one, "inputs", inputs)
    monkeypatch.setattr(memory, "LARGE", 8)
    (value,) = feed.at(7, 3)
    assert torch.equal(value, expected) and [item.data_ptr() for item in drawn] == [value.data_ptr()]
    assert torch.equal(feed.at(7, 3)[0], expected), "what was changed is drawn again"
    assert len(drawn) == 2
    assert all(torch.equal(feed.at(7, 3, keep=True)[0], expected) for _ in range(3)) and len(drawn) == 3


def test_kernels_that_are_timed_interleaved_do_not_meet_their_inputs_again(tmp_path: Path) -> None:
    feed = Feed(problem(tmp_path))
    seen = []
    for seed in (1, 2, 1, 2):
        feed.restart(seed)
        seen.append((seed, feed.next()[1][0].clone()))
    assert not torch.equal(seen[0][1], seen[2][1]) and not torch.equal(seen[1][1], seen[3][1])
    assert feed.calls == 2


def test_one_factor_does_not_lead_from_one_call_to_the_next(tmp_path: Path) -> None:
    feed = Feed(problem(tmp_path, "torch.rand(64, 48)"))
    feed.restart(1)
    ratio = feed.next()[1][0].clone() / feed.next()[1][0]
    assert float(ratio.std()) > 0.01


@pytest.mark.parametrize("shape", ["8, 64, 48", "8, 48, 48", "2, 1100000"])
def test_no_sum_follows_from_an_earlier_one(tmp_path: Path, shape: str) -> None:
    """As it would where each column has its factor: over no axis does what scales the inputs scale the sums."""
    feed = Feed(problem(tmp_path, f"torch.rand({shape})"))
    feed.restart(1)
    first, second = feed.next()[1][0].clone(), feed.next()[1][0].clone()
    factors = first / second
    assert float(factors.min()) > 0.2 and float(factors.max()) < 5
    for axis in range(first.dim()):
        scaled = second.sum(axis) * factors.select(axis, 0)
        assert float((scaled / first.sum(axis) - 1).abs().mean()) > 0.02


def test_a_symmetric_matrix_stays_one_and_zeros_stay_zero(tmp_path: Path) -> None:
    feed = Feed(problem(tmp_path, "(lambda x: torch.triu(x) + torch.triu(x).T)(torch.rand(8, 8)), torch.eye(8)"))
    feed.restart(3)
    symmetric, diagonal = feed.next()[1]
    assert torch.allclose(symmetric, symmetric.T, rtol=1e-6, atol=0)
    assert int((diagonal != 0).sum()) == 8


def test_constants_get_noise_and_drawn_weights_are_left() -> None:
    model = nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 8), nn.BatchNorm1d(8))
    drawn = model[1].weight.clone()
    vary_constants(model, 1)
    assert torch.equal(model[1].weight, drawn)
    for tensor in (model[0].weight, model[0].bias, model[2].weight, model[2].running_mean, model[2].running_var):
        assert float(tensor.detach().std()) > 0
    assert float(model[2].running_var.min()) >= 1
