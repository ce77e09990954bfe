"""The errors of a function as it stands: its candidates may have them as well, where they are no wide ones."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from kernelwright.core import Config, Evaluation, JointProblem, PythonKernel, Status
from kernelwright.core.problem import TOLERANCES
from kernelwright.corpus.functions.translation import translate
from kernelwright.evaluators.correctness.start_errors import TIMES_START, WIDEST_RMS, Errors, StartErrors
from kernelwright.evaluators.local import LocalEvaluator
from kernelwright.runtime.options.groups import parse_tolerance

START = 2e-4
"""The share by which each result is too large: twice the tolerance of fp32."""
OPS = """
import functools

import tilelang
import tilelang.cpu.language as T
import torch

SCALE = {scale}


@functools.cache
def build(M, N):
    @T.prim_func
    def kernel(X: T.Tensor((M, N), "float32"), Y: T.Tensor((M, N), "float32")):
        with T.Kernel(M) as i:
            for j in T.serial(N):
                Y[i, j] = X[i, j] * SCALE

    return tilelang.compile(kernel, target="c", compile_flags=["-O3"])


def double(x):
    y = torch.empty_like(x)
    build(*x.shape)(x, y)
    return y


def double_into(x, y):
    build(*x.shape)(x, y)


def double_torch(x):
    return x * 2.0


def double_into_torch(x, y):
    y.copy_(x * 2.0)


def inputs(seed):
    return [torch.randn(64, 128)]


def inputs_into(seed):
    return [torch.randn(64, 128), torch.zeros(64, 128)]
"""


def judged(
    evaluator: LocalEvaluator, folder: Path, start: float, candidate: float, name: str = "double", tolerance: str = ""
) -> Evaluation:
    """The verdict on a candidate whose results are too large by a share, of a function whose own are by another one."""
    path = folder / f"ops_{start:g}_{name}.py".replace("-", "_")
    path.write_text(OPS.format(scale=2 * (1 + start)))
    inputs = name.replace("double", "inputs")
    function = translate(f"{path}::{name}", f"{path}::{name}_torch", f"{path}::{inputs}")
    changed = function.kernel.source.replace(f"SCALE = {2 * (1 + start)}", f"SCALE = {2 * (1 + candidate)}")
    problem = function.problem.tolerating(*parse_tolerance(tolerance)) if tolerance else function.problem
    (found,) = evaluator.evaluate(problem, PythonKernel.parse(changed), [Config()])
    return found


@pytest.mark.parametrize("name", ["double", "double_into"])
def test_the_start_and_what_is_about_as_exact_are_correct(evaluator: LocalEvaluator, tmp_path: Path, name: str) -> None:
    for candidate in (START, 1.8 * START):
        found = judged(evaluator, tmp_path, START, candidate, name)
        assert found.status is Status.OK, found.message
        assert found.correctness is not None
        assert "within 2 times the errors of the function as it stands" in found.correctness.beside_start
        assert found.replay is not None and found.replay.replayed


def test_what_is_less_exact_than_the_start_is_wrong(evaluator: LocalEvaluator, tmp_path: Path) -> None:
    assert judged(evaluator, tmp_path, START, 2.2 * TIMES_START / 2 * START).status is Status.WRONG_VALUE
    assert judged(evaluator, tmp_path, 0.0, START).status is Status.WRONG_VALUE


def test_a_start_that_is_far_off_excuses_nothing(evaluator: LocalEvaluator, tmp_path: Path) -> None:
    assert judged(evaluator, tmp_path, 1e-2, 1e-2).status is Status.WRONG_VALUE


def test_a_tolerance_that_is_given_holds_instead(evaluator: LocalEvaluator, tmp_path: Path) -> None:
    assert judged(evaluator, tmp_path, START, START, tolerance="rtol=1e-4,atol=9e-5").status is Status.WRONG_VALUE
    loose = judged(evaluator, tmp_path, 0.0, 1e-3, tolerance="1e-2,1e-2")
    assert loose.status is Status.OK and loose.correctness is not None and loose.correctness.tolerance == 1e-2
    assert not loose.correctness.beside_start


@pytest.mark.parametrize(
    ("text", "both"),
    [("1e-3,1e-2", (1e-3, 1e-2)), ("rtol=0.5", (None, 0.5)), ("rtol=1, atol=0", (0.0, 1.0))],
)
def test_a_tolerance_is_read(text: str, both: tuple[float | None, float | None]) -> None:
    assert parse_tolerance(text) == both


@pytest.mark.parametrize("text", ["", "1e-3", "1,2,3", "tol=1", "rtol=1,1e-2", "rtol=1,rtol=2", "-1,1", "nan,1", "a,b"])
def test_a_tolerance_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"tolerance|float"):
        parse_tolerance(text)


def test_a_tolerance_is_another_problem_at_all_workloads(tmp_path: Path) -> None:
    path = tmp_path / "ops.py"
    path.write_text(OPS.format(scale=2.0) + 'WORKLOADS = {"a": {"rows": 4}, "b": {"rows": 8}}\n')
    path.write_text(path.read_text().replace("def inputs(seed):", "def inputs(seed, rows=64):"))
    problem = translate(f"{path}::double", f"{path}::double_torch", f"{path}::inputs").problem
    assert isinstance(problem, JointProblem)
    changed = problem.tolerating(None, 0.5)
    assert isinstance(changed, JointProblem) and changed.digest != problem.digest
    assert {member.tolerances["float32"][:2] for member in changed.members.values()} == {(1e-4, 0.5)}


def test_results_that_are_not_finite_are_not_excused() -> None:
    exact, limits = torch.ones(4, 64, dtype=torch.float64), TOLERANCES["float32"]
    known = StartErrors()
    known.learn(None, 0, Errors.of(exact, exact * (1 + START), None))
    assert known.excuse(None, 0, Errors.of(exact, exact * (1 + START), None), limits, "float32")
    assert known.said and not known.excuse("signs", 0, Errors(0.0, 0.0), limits, "float32")
    broken = exact.clone()
    broken[0, 0] = math.nan
    assert not known.excuse(None, 0, Errors.of(exact, broken, None), limits, "float32")
    assert not known.excuse(None, 0, Errors.of(exact, broken, 2), limits, "float32")


@pytest.mark.parametrize("axes", [None, 2], ids=["whole", "by rows"])
@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_what_is_not_finite_must_be_the_same(axes: int | None, value: float) -> None:
    exact = torch.ones(4, 64, dtype=torch.float64)
    exact[1, 5] = value
    known, start = StartErrors(), exact * (1 + START)
    known.learn(None, 0, Errors.of(exact, start, axes))
    assert known.excuse(None, 0, Errors.of(exact, start.float(), axes), TOLERANCES["float32"], "float32")
    for other in (0.0, 1e38, math.inf, -math.inf, math.nan):
        if str(other) != str(value):
            changed = start.clone()
            changed[1, 5] = other
            found = Errors.of(exact, changed, axes)
            assert found == Errors(math.inf, math.inf)
            assert not known.excuse(None, 0, found, TOLERANCES["float32"], "float32")


def test_a_start_that_is_far_off_does_not_widen_the_limit_of_the_mean() -> None:
    exact = torch.ones(4, 64, dtype=torch.float64)
    known = StartErrors()
    assert known.rms_limit(0, "float32") == 0.0
    known.learn(None, 0, Errors.of(exact, exact * (1 + START), None))
    assert known.rms_limit(0, "float32") == pytest.approx(TIMES_START * START)
    known.learn(None, 0, Errors.of(exact, exact * (1 + 2 * WIDEST_RMS["float32"]), None))
    assert known.rms_limit(0, "float32") == 0.0
    assert known.rms_limit(0, "bfloat16") == pytest.approx(TIMES_START * 2 * WIDEST_RMS["float32"])


def test_in_rows_of_any_size_not_all_may_be_as_bad_as_the_worst() -> None:
    """The size of a row does not matter: what is wrong in quiet ones counts as much."""
    exact = torch.logspace(-3, 3, 8, dtype=torch.float64)[:, None] * torch.ones(8, 64, dtype=torch.float64)
    start = exact.clone()
    start[0, 0] *= 1 + 2 * START
    known = StartErrors()
    known.learn("rows", 0, Errors.of(exact, start, 2))
    assert known.excuse("rows", 0, Errors.of(exact, start, 2), TOLERANCES["float32"], "float32")
    quiet, whole = start.clone(), exact * (1 + 2 * START)
    quiet[0] = whole[0]
    for worse in (quiet, whole):
        assert Errors.of(exact, worse, 2).largest == pytest.approx(Errors.of(exact, start, 2).largest)
        assert not known.excuse("rows", 0, Errors.of(exact, worse, 2), TOLERANCES["float32"], "float32")
