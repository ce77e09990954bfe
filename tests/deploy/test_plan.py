"""Plans of calls: later calls repeat the steps of a kernel's Python, and only where that gives the same.

The kernels are launched by a stand-in for Triton that takes addresses as Triton's launcher does.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from kernelwright.deploy.launches import is_repeatable

from .hand_made import KERNEL, REFERENCE, hand_made

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


PRODUCT = """        out = torch.empty_like(x)
        x = torch.mm(x, torch.eye(8))
        visible_launch(squared)[(1,)](x, self.weight, out, 32)
        return out
"""


@pytest.mark.parametrize("recorded", [True, False])
def test_autocast_changes_no_step(tmp_path: Path, recorded: bool) -> None:
    """Neither while a call is recorded nor later, where a kernel for fp32 would get addresses of bf16."""
    deployed = hand_made(tmp_path, f"autocast_{recorded}", kernel(PRODUCT), repeatable=True)
    for count in range(4):
        x, weight = torch.rand(4, 8), torch.rand(8)
        with torch.autocast("cpu", enabled=(count == 1) is recorded):
            assert torch.allclose(deployed.call(x, weight), x * x * weight)


def test_compiled_fallbacks_and_gradients_have_the_arguments_dtypes_under_autocast(tmp_path: Path) -> None:
    reference = REFERENCE.replace("x * x * self.weight", "(x @ torch.eye(8, device=x.device)) * x @ self.weight")
    source = reference.replace("class Model(", "class ModelNew(")
    deployed = hand_made(tmp_path, "autocast_fake", source, reference=reference, repeatable=True)
    for rows in (4, 5):  # by the kernel, and by the reference
        x, weight = torch.rand(rows, 8, requires_grad=True), torch.rand(8, requires_grad=True)
        for call in (deployed.call, torch.compile(deployed.call, backend="aot_eager")):
            with torch.autocast("cpu"):
                found = call(x, weight)
                assert found.dtype is torch.float32
                (gradient,) = torch.autograd.grad(found.sum(), x)
            torch.testing.assert_close(found, x * x @ weight)
            torch.testing.assert_close(gradient, 2 * x * weight)


def test_a_launch_of_an_unknown_tensor_is_no_step(tmp_path: Path) -> None:
    forward = """        CALLS.append(x)
        visible_launch(squared)[(1,)](KEPT, KEPT, KEPT, 32)
        return x * x * self.weight
"""
    assert calls(hand_made(tmp_path, "unknown", kernel(forward), repeatable=True)) == 5


TRITON = """import triton
import triton.language as tl


@triton.autotune(configs=[], key=[])
@triton.jit
def kernel(x):
    pass


def forward(x):
    kernel[(1,)](x)
"""


@pytest.mark.parametrize(
    ("change", "repeatable"),
    [
        (("", ""), True),
        (("import triton\n", "import functools, math, torch, triton\nfrom torch import nn\n"), True),
        (("    kernel[(1,)](x)", "    run = kernel[(1,)]\n    run(x)"), False),
        (("    kernel[(1,)](x)", "    kernel.run(x, grid=(1,))"), False),
        (("    kernel[(1,)](x)", "    {0: kernel}[0][(1,)](x)"), False),
        (("    kernel[(1,)](x)", "    triton.jit(other)[(1,)](x)"), False),
        (("def forward(x)", "def made():\n    @triton.jit\n    def inner(x):\n        pass\n\ndef forward(x)"), False),
        (("import triton\n", "import triton\nfrom triton import jit as made\n"), False),
        (("import triton\n", "import triton\n@gluon.jit\ndef f():\n  pass\n"), False),
        (("import triton\n", "import triton\nimport numpy as np\n"), False),
        (("import triton\n", "import triton\nimport random\n"), False),
        (("import triton\n", "import triton\nfrom concurrent.futures import ThreadPoolExecutor\n"), False),
        (("import triton\n", "import triton\nfrom torch.utils.dlpack import to_dlpack as given\n"), False),
        (("import triton\n", "import triton\nfrom torch.utils.cpp_extension import load_inline as load\n"), False),
        (("(x)\n", "(x)\n    x.data_ptr()\n"), False),
        (("(x)\n", "(x)\n    getattr(x, NAME)()\n"), False),
        (("(x)\n", "(x)\n    torch.empty(1, dtype=getattr(torch, NAME))\n"), True),
    ],
)  # fmt: skip
def test_what_is_repeated_hides_no_step(change: tuple[str, str], repeatable: bool) -> None:
    assert change[0] in TRITON
    assert is_repeatable(TRITON.replace(*change)) is repeatable


def test_kernels_of_tilelang_are_repeated() -> None:
    assert is_repeatable("import tilelang\n\n\n@tilelang.jit(out_idx=[-1])\ndef made():\n    pass\n")
