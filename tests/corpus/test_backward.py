"""Gradients as problems: the backward graph is right, is differentiated as autograd does, and can be optimized."""

from __future__ import annotations

import itertools
from pathlib import Path
from types import ModuleType
from typing import Any

import kernelwright
import pytest
import torch
from kernelwright.core import ProblemError, TorchProblem
from kernelwright.corpus import find_problem
from kernelwright.corpus.backward import backward_problem

from ..cli.commands import kernelwright as command
from ..cli.commands import refused

HEAD = "import torch\nfrom torch import nn\nrows = 3\nWORKLOADS = {'tiny': {'rows': 4}}\n"
TAIL = "\ndef get_init_inputs():\n    return []\n"
GATED = f"""{HEAD}
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(6, 8)
        self.register_buffer("shift", torch.rand(4))
    def forward(self, x, number):
        gate, value = self.proj(x).chunk(2, dim=-1)
        out = nn.functional.silu(gate) * value + self.shift * number.float()
        return out, out.softmax(-1).sum()
def get_inputs():
    return [torch.randn(rows, 6), torch.arange(rows)[:, None]]
{TAIL}"""
SQUARED = f"""{HEAD}
class Model(nn.Module):
    def forward(self, x):
        return x * x * (x > 0)
def get_inputs():
    return [torch.randn(rows, 8)]
{TAIL}"""
KERNEL = '''"""Gradient of the square of what is positive."""
import torch
import tilelang
import tilelang.cpu.language as T
from torch import nn


def build(rows, columns):
    @T.prim_func
    def squared_backward(
        X: T.Tensor((rows, columns), "float32"),
        G: T.Tensor((rows, columns), "float32"),
        D: T.Tensor((rows, columns), "float32"),
    ):
        with T.Kernel(rows) as row:
            for j in T.serial(columns):
                D[row, j] = T.if_then_else(X[row, j] > 0.0, 2.0 * X[row, j] * G[row, j], 0.0)

    return tilelang.compile(squared_backward, out_idx=[-1], target="c", compile_flags=["-O3"])


class ModelNew(nn.Module):
    def forward(self, x, output_gradient_0):
        return (build(*x.shape)(x.contiguous(), output_gradient_0.contiguous()),)
'''


def problem(source: str, name: str = "module") -> TorchProblem:
    return TorchProblem(id=name, name=name, source=source).at("tiny")


def loaded(found: TorchProblem) -> Any:
    module = ModuleType("gradients")
    exec(compile(found.source, found.path, "exec"), vars(module))
    return module


class Joined(torch.autograd.Function):
    """The reference's forward pass with the gradients of the problem."""

    @staticmethod
    def forward(ctx: Any, module: Any, model: Any, *tensors: Any) -> Any:
        ctx.save_for_backward(*tensors)
        ctx.model, ctx.forward_of = model, module.Forward.forward
        return ctx.forward_of(model, *tensors)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        inputs = ctx.saved_tensors
        found = iter(ctx.model(*inputs, *gradients))
        return None, None, *(next(found) if item.is_floating_point() else None for item in inputs)


@pytest.mark.parametrize("reference", ["gated", "1_36", "1_40", "2_12"])
def test_gradients_are_those_of_autograd(reference: str) -> None:
    forward = problem(GATED) if reference == "gated" else find_problem(reference).read().at("tiny")
    module = loaded(backward_problem(forward))
    torch.manual_seed(0)
    model, given = module.Model(*module.get_init_inputs()), module.get_inputs()
    inputs = given[: len(module.forward_inputs())]
    wanted = [item.requires_grad_() for item in inputs if item.is_floating_point()]
    wanted += list(model.parameters())
    outputs = module.Forward.forward(model, *inputs)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    expected = torch.autograd.grad(outputs, wanted, given[len(inputs) :])
    with torch.no_grad():
        found = model(*given)
    assert len(found) == len(expected)
    for actual, other in itertools.zip_longest(found, expected):
        assert actual.shape == other.shape and torch.allclose(actual, other, rtol=1e-4, atol=1e-5)


def test_gradcheck_of_forward_and_backward_together() -> None:
    module = loaded(backward_problem(problem(GATED)))
    model = module.Model().double()
    x, number = module.forward_inputs()
    x = x.double().requires_grad_()
    assert torch.autograd.gradcheck(lambda tensor: Joined.apply(module, model, tensor, number), (x,))


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (SQUARED.replace("* (x > 0)", "* torch.rand_like(x)"), "it draws random numbers"),
        (SQUARED.replace("return x * x * (x > 0)", "return x > 0"), "it has results without gradients"),
        (SQUARED.replace("forward(self, x)", "forward(self, x, n)").replace("rows, 8)]", "rows, 8), 2.0]"),
         "it takes arguments that are not tensors"),
        (SQUARED.replace("* (x > 0)", "* (x > 0) * (y > 0)").replace("forward(self, x)", "forward(self, x, y)")
         .replace("rows, 8)]", "rows, 8), torch.rand(rows, 8)]"), "an input or a parameter has no gradient"),
        (SQUARED.replace("* (x > 0)", "* (x > 0) * self.one * self.two")
         .replace("    def forward(", "    def __init__(self):\n        super().__init__()\n"
                  "        self.one = self.two = torch.nn.Parameter(torch.rand(8))\n\n    def forward("),
         "it has a parameter under two names"),
    ],
)  # fmt: skip
def test_references_without_a_backward_problem(source: str, why: str) -> None:
    with pytest.raises(ProblemError, match=f"module has no backward problem: {why}"):
        backward_problem(problem(source))


def test_a_backward_kernel_is_optimized_and_verified_on_a_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELWRIGHT_SANDBOX", "none")  # with it each evaluator imports torch anew
    (tmp_path / "square.py").write_text(SQUARED)
    (tmp_path / "square_kernel.py").write_text(KERNEL)
    given = ("--kernel", "square_kernel.py", "--problem", "square.py", "--workload", "rows=512")
    run = command("optimize", *given, "--backward", "--device", "cpu", "--quick", "--max-iterations", 1, cwd=tmp_path)
    assert run.returncode in (0, 3), run.stderr
    (written,) = (tmp_path / "results" / "backward").glob("square_backward_*.py")
    options: dict[str, Any] = {"problem": str(written), "device": "cpu", "sandbox": "none"}
    verdict = kernelwright.evaluate(str(tmp_path / "square_kernel.py"), **options)
    assert verdict.correct, verdict.message
    wrong = tmp_path / "wrong.py"
    wrong.write_text(KERNEL.replace("2.0 * X", "3.0 * X"))
    assert not kernelwright.evaluate(str(wrong), **options).correct


def test_backward_needs_a_problem(tmp_path: Path) -> None:
    assert "--backward needs a --problem" in refused(
        command("optimize", "--kernel", "1_36", "--backward", cwd=tmp_path)
    )
