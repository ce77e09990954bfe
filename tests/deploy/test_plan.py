"""Plans of calls: later calls repeat the steps of a kernel's Python, and only where that gives the same.

The kernels are launched by a stand-in for Triton that takes addresses as Triton's launcher does.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from .hand_made import KERNEL, hand_made

HEAD = """import ctypes

import numpy

from ..launch import launch as visible_launch

CALLS, KEPT = [], torch.zeros(32)


def memory(given, count):
    address = given if isinstance(given, int) else given.data_ptr()
    return numpy.ctypeslib.as_array((ctypes.c_float * count).from_address(address))


class Compiled:
    def __getitem__(self, grid):
        assert grid == (1, 1, 1)
        return self.run

    def run(self, x, weight, out, count):
        memory(out, count)[:] = memory(x, count) ** 2 * numpy.resize(memory(weight, 8), count)


class JITFunction:
    pre_run_hooks = ()
    fn = staticmethod(lambda x, weight, out, count: None)

    def __getitem__(self, grid):
        def run(*arguments):
            COMPILED.run(*arguments)
            return COMPILED

        return run


COMPILED, squared = Compiled(), JITFunction()
"""
LAUNCH = "visible_launch(squared)[(1,)](x, self.weight, out, 32)"
FORWARD = f"""        CALLS.append(x)
        out = torch.empty_like(x)
        {LAUNCH}
        return out
"""


def kernel(forward: str) -> str:
    """A kernel file whose forward has these lines."""
    source = KERNEL.replace("        return x * x * self.weight\n", forward)
    return source.replace("import torch\n", "import torch\n" + HEAD, 1)


def calls(deployed: object) -> int:
    """How often the kernel's Python ran, after calls with other tensors each time, which are all right."""
    kept = []  # their memory is not given to later ones
    for seed in range(5):
        torch.manual_seed(seed)
        x, weight = torch.rand(4, 8), torch.rand(8)
        found = deployed.call(x, weight)  # type: ignore[attr-defined]
        assert torch.allclose(found, x * x * weight)
        assert all(found.data_ptr() != other.data_ptr() for other in kept)
        kept += [x, weight, found]
    (module,) = {deployed.OPERATOR._ready.__dict__[key].kernel for key in deployed.OPERATOR._ready.__dict__}  # type: ignore[attr-defined]
    return len(module._forward.__globals__["CALLS"])


@pytest.mark.parametrize(
    ("name", "forward"),
    [
        ("launched", FORWARD),
        ("of_views", FORWARD.replace(LAUNCH, "for n in (0, 2):\n            "
            "visible_launch(squared)[(1,)](x[n:], self.weight, out[n:], 16)")),
        ("of_operators", FORWARD.replace(LAUNCH, "x = torch.cat([x[:2], x[2:]], dim=0).t().contiguous().t()\n"
            "        x = x.contiguous()\n        " + LAUNCH).replace("return out", "return out.clone()")),
        ("of_zeros", FORWARD.replace("torch.empty_like(x)", "torch.zeros(32).add_(torch.zeros(32)).view(4, 8)")),
    ],
)  # fmt: skip
def test_later_calls_repeat_the_steps_of_the_second(tmp_path: Path, name: str, forward: str) -> None:
    assert calls(hand_made(tmp_path, f"planned_{name}", kernel(forward), repeatable=True)) == 2


@pytest.mark.parametrize(
    ("name", "forward"),
    [
        ("reading", FORWARD.replace(LAUNCH, f"if x.sum().item() > 0:\n            {LAUNCH}")),
        ("random", FORWARD.replace("torch.empty_like(x)", "torch.rand_like(x)")),
        (
            "keeping",
            FORWARD.replace("torch.empty_like(x)", "KEPT.view(4, 8)").replace("return out", "return out.clone()"),
        ),
        ("sharing", FORWARD.replace("return out", "return out.t().contiguous().t()")),
    ],
)
def test_a_call_that_is_more_than_its_steps_is_made_each_time(tmp_path: Path, name: str, forward: str) -> None:
    assert calls(hand_made(tmp_path, f"unplanned_{name}", kernel(forward), repeatable=True)) == 5


def test_kernels_that_read_memory_otherwise_are_not_recorded(tmp_path: Path) -> None:
    assert calls(hand_made(tmp_path, "not_recorded", kernel(FORWARD))) == 5


def test_arguments_that_share_memory_in_one_call_need_not_in_the_next(tmp_path: Path) -> None:
    arguments = [["float32", [8]], ["float32", [8]]]
    forward = FORWARD.replace(", out, 32", ", out, 8")
    deployed = hand_made(tmp_path, "sharing", kernel(forward), arguments=arguments, repeatable=True)
    shared = torch.rand(8)
    for _ in range(2):
        assert torch.allclose(deployed.call(shared, shared), shared**3)
    x, weight = torch.rand(8), torch.rand(8)
    assert torch.allclose(deployed.call(x, weight), x * x * weight)


def test_a_plan_serves_training(tmp_path: Path) -> None:
    deployed = hand_made(tmp_path, "trained", kernel(FORWARD), repeatable=True)
    for _ in range(4):
        x, weight = torch.rand(4, 8, requires_grad=True), torch.rand(8, requires_grad=True)
        deployed.call(x, weight).sum().backward()
        assert torch.allclose(x.grad, 2 * x * weight) and torch.allclose(weight.grad, (x * x).sum(0))
