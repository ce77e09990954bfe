"""Kernels of the gradients beside those of the forward pass, in one package."""

from __future__ import annotations

import json
from pathlib import Path

from kernelwright.core import TorchProblem
from kernelwright.corpus.backward import backward_problem

from ..cli.commands import kernelwright, refused
from ..corpus.test_backward import KERNEL, SQUARED
from .results import own_tests, python, result

FORWARD = (
    KERNEL.replace("T.if_then_else(X[row, j] > 0.0, 2.0 * X[row, j] * G[row, j], 0.0)",
                   "T.if_then_else(X[row, j] > 0.0, X[row, j] * X[row, j], 0.0)")
    .replace('        G: T.Tensor((rows, columns), "float32"),\n', "")
    .replace("(self, x, output_gradient_0)", "(self, x)")
    .replace("(build(*x.shape)(x.contiguous(), output_gradient_0.contiguous()),)", "build(*x.shape)(x.contiguous())")
)  # fmt: skip
TRAINED = """
import json, torch, mylib_square as deployed

def gradients(rows, **options):
    x = torch.linspace(-1, 1, rows * 8).view(rows, 8).requires_grad_()
    found = torch.autograd.grad(deployed.square(x).sum(), x, **options)[0]
    return torch.allclose(found, 2 * x * (x > 0)), x

kernel = deployed.OPERATOR.gradients
calls = []
compute = kernel.modules.kernel
kernel.modules.kernel = lambda name, *rest: calls.append(name) or compute(name, *rest)
served = [gradients(4)[0] for _ in range(4)]
at_four = len(calls)
other = gradients(5)[0]
twice, x = gradients(4, create_graph=True)
compiled = torch.compile(lambda tensor: deployed.square(tensor), fullgraph=True)
y = torch.ones(4, 8, requires_grad=True)
compiled(y).sum().backward()
print(json.dumps([served, at_four, other, twice, len(calls) - at_four, bool((y.grad == 2).all()),
                  [check.passed for check in deployed.verify()]]))
"""


def written(folder: Path, forward: str = FORWARD, backward: str = KERNEL, workload: str = "tiny") -> tuple[str, ...]:
    """Write results for the module and for its gradients; return the arguments of the command."""
    (folder / "square.py").write_text(SQUARED)
    problem = TorchProblem(id="square", name="square", source=SQUARED).at(workload)
    gradients = backward_problem(problem).name
    sizes = dict(problem.sizes)
    first = result(folder / "forward.py", forward, "square", workload=workload, sizes=sizes)
    second = result(folder / "backward.py", backward, gradients, workload="default", sizes={})
    return (
        *("deploy", str(first), "--gradients", str(second), "--problem", "square.py"),
        *("--name", "mylib::square", "--output", "out"),
    )


def test_a_package_trains_with_kernels(tmp_path: Path) -> None:
    run = kernelwright(*written(tmp_path), "--json", cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout)["serves"] == [
        "x float32[4, 8]",
        "x float32[4, 8], output_gradient_0 float32[4, 8]",
    ]
    used = python(TRAINED, tmp_path / "out")
    assert used.returncode == 0, used.stderr
    served, by_kernel, other, twice, later, compiled, checks = json.loads(used.stdout.splitlines()[-1])
    assert served == [True] * 4 and by_kernel == 1  # found once, repeated then
    assert other and twice and compiled and later == 0 and checks == [True, True]
    tried = own_tests(tmp_path / "out")
    assert tried.returncode == 0 and "8 passed, 1 skipped" in tried.stdout, tried.stdout


def test_wrong_gradients_are_not_deployed(tmp_path: Path) -> None:
    arguments = written(tmp_path, backward=KERNEL.replace("2.0 * X", "3.0 * X"))
    run = kernelwright(*arguments, cwd=tmp_path)
    assert run.returncode == 2 and "mylib_square is not deployed: square_backward_0 at" in run.stderr, run.stderr
    assert not (tmp_path / "out").exists()


def test_gradients_of_other_sizes_are_refused(tmp_path: Path) -> None:
    arguments = written(tmp_path)
    (tmp_path / "square.py").write_text(SQUARED.replace("{'rows': 4}", "{'rows': 5}").replace("x * x", "x * 3 * x"))
    run = kernelwright(*arguments, cwd=tmp_path)
    assert "not the gradients of the results at their sizes, square_backward_" in refused(run)
