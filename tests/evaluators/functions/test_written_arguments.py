"""What the reference writes to its arguments, and whole numbers of eight bits: held to it, or to the start's errors."""

from __future__ import annotations

from pathlib import Path

from kernelwright.core import Config, Evaluation, PythonKernel, Status
from kernelwright.corpus.functions.translation import translate
from kernelwright.evaluators.local import LocalEvaluator

OPS = """
import functools
import time

import tilelang
import tilelang.cpu.language as T
import torch

SCALE = {scale}


@functools.cache
def build(statement, M, N, of, to):
    @T.prim_func
    def decay(X: T.Tensor((M, N), of), Y: T.Tensor((M, N), to)):
        with T.Kernel(M) as i:
            for j in T.serial(N):
                X[i, j] = X[i, j] * SCALE
                Y[i, j] = X[i, j]

    @T.prim_func
    def rounded(X: T.Tensor((M, N), of), Y: T.Tensor((M, N), to)):
        with T.Kernel(M) as i:
            for j in T.serial(N):
                Y[i, j] = T.Cast("int8", T.floor(X[i, j] * 10.0 * SCALE + 0.5))

    @T.prim_func
    def squared(X: T.Tensor((M, N), of), Y: T.Tensor((M, N), to)):
        with T.Kernel(M) as i:
            for j in T.serial(N):
                Y[i, j] = X[i, j] * X[i, j]

    return tilelang.compile(locals()[statement], target="c", compile_flags=["-O3"])


def decay(x):
    y = torch.empty_like(x)
    build("decay", *x.shape, "float32", "float32")(x, y)
    return y * 0.0 + 1.0


def decay_torch(x):
    x.mul_(2.0)
    return torch.ones_like(x)


def rounded(x):
    y = torch.empty_like(x, dtype=torch.int8)
    build("rounded", *x.shape, "float32", "int8")(x, y)
    return y


def rounded_torch(x):
    return torch.floor(x * 10.0 + 0.5).to(torch.int8)


def squared(x):
    y = torch.empty_like(x)
    build("squared", *x.shape, "float16", "float16")(x, y)
    return y


def squared_torch(x):
    x.copy_(x.float() * x.float())
    return x


def scratched(x, scratch, y):
    build("decay", *x.shape, "float32", "float32")(scratch.copy_(x), y)


def scratched_torch(x, scratch, y):
    y.copy_(x * 2.0)


def scratched_inputs(seed):
    return [torch.randn(64, 128), torch.full((64, 128), float(time.perf_counter_ns() % 999)), torch.empty(64, 128)]


def inputs(seed):
    return [torch.randn(64, 128)]


def half_inputs(seed):
    return [torch.randn(64, 128, dtype=torch.float16)]
"""


def judged(
    evaluator: LocalEvaluator, folder: Path, name: str, start: float, candidate: float, inputs: str = "inputs"
) -> Evaluation:
    """The verdict on a candidate that scales by a number, of a function that scales by another one."""
    path = folder / f"{name}_ops_{start}.py".replace(".", "_", 1)
    path.write_text(OPS.format(scale=start))
    function = translate(f"{path}::{name}", f"{path}::{name}_torch", f"{path}::{inputs}")
    kernel = PythonKernel.parse(function.kernel.source.replace(f"SCALE = {start}", f"SCALE = {candidate}"))
    (found,) = evaluator.evaluate(function.problem, kernel, [Config()])
    return found


def test_a_written_argument_may_have_the_errors_of_the_start(evaluator: LocalEvaluator, tmp_path: Path) -> None:
    found = judged(evaluator, tmp_path, "decay", 2.0004, 2.0006)
    assert found.status is Status.OK, found.rejection or found.message
    assert found.correctness is not None and "of the function as it stands" in found.correctness.beside_start
    found = judged(evaluator, tmp_path, "decay", 2.0004, 2.001)
    assert found.status is Status.WRONG_VALUE and "which the reference writes to" in found.message


def test_numbers_that_the_start_rounds_otherwise_may_differ_by_one(evaluator: LocalEvaluator, tmp_path: Path) -> None:
    found = judged(evaluator, tmp_path, "rounded", 1.0005, 1.0007)
    assert found.status is Status.OK, found.rejection or found.message
    assert found.correctness is not None
    assert found.correctness.beside_start.startswith("whole numbers differ by one from the reference's, as 0.")
    for start, candidate in ((1.0005, 1.003), (1.0, 1.0005), (1.05, 1.05)):
        found = judged(evaluator, tmp_path, "rounded", start, candidate)
        assert found.status is Status.WRONG_VALUE and "elements differ; the first at" in found.message


def test_what_the_reference_leaves_alone_is_no_result(evaluator: LocalEvaluator, tmp_path: Path) -> None:
    """Workspaces have whatever `torch.empty` finds, which no two draws have alike."""
    found = judged(evaluator, tmp_path, "scratched", 2.0, 2.0, "scratched_inputs")
    assert found.status is Status.OK, found.rejection or found.message
    assert found.replay is not None and found.replay.replayed, found.replay
    found = judged(evaluator, tmp_path, "scratched", 2.0, 2.1, "scratched_inputs")
    assert found.status is Status.WRONG_VALUE


def test_an_argument_that_is_not_written_is_no_matter_of_rounding(evaluator: LocalEvaluator, tmp_path: Path) -> None:
    """Its reference in fp64 must begin with what it began with, not with what it wrote."""
    found = judged(evaluator, tmp_path, "squared", 1.0, 1.0, "half_inputs")
    assert found.status is Status.WRONG_VALUE
    assert found.message.startswith("input 0, which the reference writes to: "), found.message
