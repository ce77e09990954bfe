"""Arguments and results as real functions have them, from the inputs' file to the replay of what they launch."""

from __future__ import annotations

from pathlib import Path

import pytest
from kernelwright.core import Config, Evaluation, PythonKernel, Status
from kernelwright.corpus.functions.translation import translate
from kernelwright.evaluators.local import LocalEvaluator

OPS = """
import dataclasses
import enum
import functools

import numpy
import tilelang
import tilelang.cpu.language as T
import torch


@functools.cache
def build(M, N):
    @T.prim_func
    def kernel(X: T.Tensor((M, N), "float32"), Y: T.Tensor((M, N), "float32")):
        with T.Kernel(M) as i:
            for j in T.serial(N):
                Y[i, j] = X[i, j] * 2.0

    return tilelang.compile(kernel, target="c", compile_flags=["-O3"])


def doubled(x):
    y = torch.empty_like(x)
    build(*x.shape)(x, y)
    return y


class Mode(enum.Enum):
    PLAIN = 1


@dataclasses.dataclass
class State:
    x: torch.Tensor
    length: int
"""
FORMS = {
    "by_name": (
        """
def function(x, *, mode, dtype, scales, options, **more):
    assert mode is Mode.PLAIN and dtype is torch.float32 and scales[0] == 3.0
    assert options["names"] == ["s", 1.5] and more == {"extra": None}
    return doubled(x)
def reference(x, **more):
    return x * 2.0
def inputs(seed):
    return {"x": torch.randn(32, 64), "mode": Mode.PLAIN, "dtype": torch.float32, "scales": numpy.array([3.0]),
            "options": {"names": ["s", 1.5]}, "extra": None}
""",
        "",
    ),
    "in_containers": (
        """
def function(pair, state, by_name, factor, none):
    assert state.length == 5 and factor == 2.0 and none is None
    return {"first": doubled(pair[0]), "others": [doubled(state.x), doubled(by_name["x"])]}
def reference(pair, state, by_name, factor, none):
    return pair[0] * factor, state.x * factor, by_name["x"] * factor
def inputs(seed):
    x, y, z = (torch.randn(32, 64) for _ in range(3))
    return [(x,), State(y, 5), {"x": z}, 2.0, None]
""",
        "",
    ),
    "results_beside_tensors": (
        """
def function(x):
    return doubled(x), None, x.shape[0], "sum", x.dtype
def reference(x):
    return x * 2.0, None, 32, "sum", torch.float32
def inputs(seed):
    return [torch.randn(32, 64)]
""",
        "",
    ),
    "none_that_the_reference_leaves_out": (
        """
def function(x):
    return doubled(x), None
def reference(x):
    return x * 2.0
def inputs(seed):
    return [torch.randn(32, 64)]
""",
        "",
    ),
    "another_number": (
        """
def function(x):
    return doubled(x), None, 3
def reference(x):
    return x * 2.0, None, 4
def inputs(seed):
    return [torch.randn(32, 64)]
""",
        "returned 3 in place 2 of its result, the reference 4",
    ),
    "no_none": (
        """
def function(x):
    return doubled(x)
def reference(x):
    return x * 2.0, None
def inputs(seed):
    return [torch.randn(32, 64)]
""",
        "returned tensors alone; the reference tensor, None",
    ),
    "what_it_writes": (
        """
def function(x, out):
    build(*x.shape)(x, out)
def reference(x, out):
    out.copy_(x * 2.0)
def inputs(seed):
    return [torch.randn(32, 64), torch.zeros(32, 64)]
""",
        "",
    ),
    "named_outputs": (
        """
OUTPUTS = ["out"]
def function(x, out, workspace):
    build(*x.shape)(x, workspace)
    out.copy_(workspace)
def reference(x, out, workspace):
    out.copy_(x * 2.0)
    return out
def inputs(seed):
    return [torch.randn(32, 64), torch.zeros(32, 64), torch.zeros(32, 64)]
""",
        "",
    ),
    "strides_of_its_own": (
        """
def function(x):
    return doubled(x).t().contiguous().t()
def reference(x):
    return x * 2.0
def inputs(seed):
    return [torch.randn(32, 64)]
""",
        "",
    ),
}


def judged(evaluator: LocalEvaluator, path: Path) -> Evaluation:
    function = translate(f"{path}::function", f"{path}::reference", f"{path}::inputs")
    (found,) = evaluator.evaluate(function.problem, function.kernel, [Config()])
    return found


@pytest.mark.parametrize("form", FORMS)
def test_each_form_is_judged_and_replayed(evaluator: LocalEvaluator, tmp_path: Path, form: str) -> None:
    text, said = FORMS[form]
    path = tmp_path / f"ops_{form}.py"
    path.write_text(OPS + text)
    found = judged(evaluator, path)
    if said:
        assert found.status is Status.WRONG_VALUE and found.message == said
    else:
        assert found.status is Status.OK, found.message
        assert found.replay is not None and found.replay.replayed


def test_a_candidate_may_write_to_what_the_start_writes_to_and_to_nothing_else(
    evaluator: LocalEvaluator, tmp_path: Path
) -> None:
    path = tmp_path / "ops_written.py"
    path.write_text(OPS + FORMS["named_outputs"][0])
    function = translate(f"{path}::function", f"{path}::reference", f"{path}::inputs")
    changed = function.kernel.source.replace("out.copy_(workspace)", "out.copy_(workspace)\n    x.zero_()")
    (found,) = evaluator.evaluate(function.problem, PythonKernel.parse(changed), [Config()])
    assert found.rejection is not None and found.rejection.rule == "input-changed"
    assert found.rejection.where == "input 0"
