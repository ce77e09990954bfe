"""What torch does in a user's function as it stands: its candidates may let torch do as much, and no more."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from kernelwright.core import Config, Evaluation, PythonKernel, Status
from kernelwright.corpus.functions.translation import translate
from kernelwright.evaluators.local import LocalEvaluator
from kernelwright.evaluators.settings import AllowTorch

from .conftest import SETTINGS

TURNED = "y = x.t().contiguous()"
OPS = f"""
import functools

import tilelang
import tilelang.cpu.language as T
import torch


@functools.cache
def build(M, N):
    @T.prim_func
    def kernel(X: T.Tensor((M, N), "float32")):
        with T.Kernel(M) as i:
            for j in T.serial(N):
                X[i, j] = X[i, j] * 2.0

    return tilelang.compile(kernel, target="c", compile_flags=["-O3"])


def turned(x):
    {TURNED}
    build(*y.shape)(y)
    return y


def turned_torch(x):
    return (x * 2.0).t().contiguous()


def inputs(seed):
    return [torch.randn(512, 512)]
"""


def judged(evaluator: LocalEvaluator, folder: Path, copy: str) -> Evaluation:
    (folder / "turned_ops.py").write_text(OPS)
    function = translate(*(f"{folder}/turned_ops.py::{name}" for name in ("turned", "turned_torch", "inputs")))
    kernel = PythonKernel.parse(function.kernel.source.replace(TURNED, copy))
    (found,) = evaluator.evaluate(function.problem, kernel, [Config()])
    return found


def test_a_copy_that_the_start_lets_torch_make_is_allowed_and_said(evaluator: LocalEvaluator, tmp_path: Path) -> None:
    for copy in (TURNED, "y = x.mT.contiguous()"):
        found = judged(evaluator, tmp_path, copy)
        assert found.status is Status.OK, found.rejection or found.message
        assert found.replay is not None and found.replay.replayed
        assert found.correctness is not None
        said = found.correctness.torch_as_start
        assert said.startswith("torch does more than glue (clone: 2.1 MB, ") and "the function as it stands" in said


def test_twice_the_copies_of_the_start_are_not(evaluator: LocalEvaluator, tmp_path: Path) -> None:
    found = judged(evaluator, tmp_path, "y = x.t().contiguous().t().contiguous().t().contiguous()")
    assert found.rejection is not None and found.rejection.rule == "torch-operator"
    assert found.rejection.where.endswith("measured in its launch plan")


def test_work_of_another_kind_is_not(evaluator: LocalEvaluator, tmp_path: Path) -> None:
    found = judged(
        evaluator, tmp_path, "y = torch.sort(x, dim=1)[0].gather(1, x.argsort(dim=1).argsort(dim=1)).t().contiguous()"
    )
    assert found.rejection is not None and found.rejection.rule == "torch-operator"
    assert found.rejection.where.endswith("measured in its launch plan")


def test_none_allows_nothing_of_it(tmp_path: Path) -> None:
    with LocalEvaluator("cpu", replace(SETTINGS, allow_torch=AllowTorch.NONE)) as evaluator:
        found = judged(evaluator, tmp_path, TURNED)
    assert found.rejection is not None and found.rejection.rule == "torch-operator"
    assert found.rejection.where.endswith("measured in its launch plan")
