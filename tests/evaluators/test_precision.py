"""The policy of precision and the default baseline, end to end on a CPU whose defaults are made to differ."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from kernelwright.core import Config, Evaluation, Kernel, Measurement, OptionError, PythonKernel, Status, TorchProblem
from kernelwright.evaluators.correctness.errors import relative_error
from kernelwright.evaluators.correctness.fp64 import TIMES_DEFAULT, TIMES_TORCH, Fp64Comparison
from kernelwright.evaluators.local import LocalEvaluator
from kernelwright.evaluators.pipeline.interleaved_timer import InterleavedTimer
from kernelwright.evaluators.reference.arithmetic import Tf32
from kernelwright.evaluators.reference.baselines import BaselineCache, CachedBaseline
from kernelwright.evaluators.reference.client import ReferenceClient
from kernelwright.evaluators.reference.comparison import Comparison
from kernelwright.evaluators.reference.tf32_convolutions import in_tf32, rounded
from kernelwright.evaluators.settings import Precision, Sandbox, SearchSettings, Settings

from ..conftest import FAST, SCALE_PROBLEM, Unguarded
from .default_precision import EXACT, ROUND, SLEEP_S, SOURCE, images, on_images, pretend_gpu, problem, rounding

ONE = Config()


@pytest.fixture(scope="module")
def evaluators() -> Iterator[dict[Precision, LocalEvaluator]]:
    with contextlib.ExitStack() as stack:
        yield {
            precision: stack.enter_context(Unguarded(settings=replace(FAST, precision=precision)))
            for precision in Precision
        }


@pytest.fixture
def strict(evaluators: dict[Precision, LocalEvaluator], monkeypatch: pytest.MonkeyPatch) -> LocalEvaluator:
    pretend_gpu(monkeypatch)
    return evaluators[Precision.FP32]


@pytest.fixture
def default(evaluators: dict[Precision, LocalEvaluator], monkeypatch: pytest.MonkeyPatch) -> LocalEvaluator:
    pretend_gpu(monkeypatch)
    return evaluators[Precision.DEFAULT]


def of(evaluator: LocalEvaluator, kernel: Kernel) -> Evaluation:
    (evaluation,) = evaluator.evaluate(problem(), kernel, [ONE])
    return evaluation


def test_defaults_are_timed_beside_the_reference(strict: LocalEvaluator) -> None:
    found = of(strict, EXACT)
    assert found.ok and (found.precision, found.default_is_reference) == ("fp32", False)
    assert found.speedup and found.speedup_default and found.reference
    assert found.baselines["default"].median_ms >= 1000 * SLEEP_S > found.reference.median_ms
    assert found.speedup_default.ratio > found.speedup.ratio
    assert found.speedup_default.low <= found.speedup_default.ratio <= found.speedup_default.high
    assert found.speedup_against("strict") == found.speedup and found.speedup_against("compile") is None


@pytest.mark.parametrize(("forward", "same"), [("x * self.weight", True), ("self.conv(x[None, None]) * 0", False)])
def test_defaults_that_make_no_difference_are_not_timed_again(strict: LocalEvaluator, forward: str, same: bool) -> None:
    """Equal results are not enough: a convolution may take another time."""
    source = SCALE_PROBLEM.replace("x * self.weight", forward).replace(
        "super().__init__()\n", "super().__init__()\n        self.conv = nn.Conv2d(1, 1, 3)\n", 1
    )
    problem = TorchProblem(id="level1/1_998", name="998_Scale", source=source).at("cpu")
    client = strict.processes.reference_client(problem)
    assert client.arithmetic == {"precision": "fp32", "default_is_reference": same}


def test_what_a_kernel_leaves_to_torch_computes_as_the_reference_does(
    strict: LocalEvaluator, default: LocalEvaluator
) -> None:
    """The reference as the candidate: it rounds where its process has PyTorch's defaults."""
    kernel = PythonKernel.parse(f"import tilelang.cpu.language\n{SOURCE.replace('Model(nn', 'ModelNew(nn')}")
    exact, rounded = of(strict, kernel), of(default, kernel)
    assert exact.ok and rounded.ok, (exact.message, rounded.message)


def test_fp32_refuses_what_rounds_as_the_defaults_do(strict: LocalEvaluator) -> None:
    assert of(strict, rounding(10)).status is Status.WRONG_VALUE


@pytest.mark.parametrize("kernel", [EXACT, rounding(10)], ids=["fp32", "tf32"])
def test_default_accepts_tf32_and_what_is_better(default: LocalEvaluator, kernel: Kernel) -> None:
    found = of(default, kernel)
    assert found.ok, found.message
    assert found.correctness and len(found.correctness.distributions) == 8, "fp32 decides which distributions serve"
    assert (found.precision, found.default_is_reference, found.baselines) == ("default", True, {})
    assert found.speedup and found.reference and found.reference.median_ms >= 1000 * SLEEP_S
    assert found.speedup == found.speedup_default == found.speedup_against("default")
    assert found.speedup_against("strict") is None
    torchs = found.correctness.torch_error_fp64
    assert torchs and 1e-4 < torchs < 1e-3, "the error of the defaults is what the record compares with"


def test_the_error_of_the_defaults_is_learned_from_each_seed_of_another_distribution() -> None:
    """The largest of heavy tails differs from seed to seed, and with it the largest error."""
    arithmetic = SimpleNamespace(main=Tf32(products=True), switched=contextlib.nullcontext)
    reference: Any = SimpleNamespace(arithmetic=arithmetic, outputs=lambda inputs: inputs)
    comparison, inputs = Comparison(reference), [torch.ones(2)]
    comparison.exactness.learn(inputs, inputs, None)
    assert comparison.in_fp32(inputs, "heavy tails") is not None
    assert comparison.in_fp32(inputs, None) is None


@pytest.mark.parametrize(
    ("precision", "bits", "status"),
    [
        (Precision.DEFAULT, 10, Status.OK),
        (Precision.DEFAULT, 7, Status.WRONG_VALUE),
        (Precision.FP32, 10, Status.WRONG_VALUE),
    ],
)
def test_a_convolution_may_be_in_tf32_by_default_also_where_the_library_computes_it_in_fp32(
    evaluators: dict[Precision, LocalEvaluator],
    monkeypatch: pytest.MonkeyPatch,
    precision: Precision,
    bits: int,
    status: Status,
) -> None:
    pretend_gpu(monkeypatch)
    (found,) = evaluators[precision].evaluate(images(), on_images(bits), [ONE])
    assert found.status is status, found.message
    if status is Status.OK:
        assert found.correctness is not None and found.correctness.less_exact is not None, "the user is told"


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("transposed", [False, True])
def test_operands_of_convolutions_alone_are_rounded_to_tf32(axes: int, transposed: bool) -> None:
    kind = getattr(torch.nn, f"Conv{'Transpose' if transposed else ''}{axes}d")
    model, x = kind(3, 3, 3), torch.randn(2, 3, *[8] * axes)
    (found,) = in_tf32(lambda: [model(x)]) or [None]
    with torch.no_grad():
        model.weight.copy_(rounded(model.weight))
        assert torch.equal(found, model(rounded(x)))
    rms, _ = relative_error(rounded(x), x)
    assert 5e-5 < rms < 5e-4
    named = in_tf32(lambda: [getattr(torch, f"conv{axes}d")(input=x, weight=torch.ones(1, *x.shape[1:]))])
    assert named is not None and not torch.equal(named[0].flatten(), x.flatten(1).sum(1))
    assert in_tf32(lambda: [x.flatten(1) @ x.flatten(1).T]) is None


def test_what_is_no_fp32_is_not_rounded() -> None:
    image, taps = torch.randn(1, 1, 8, 8, dtype=torch.float64), torch.randn(1, 1, 3, 3, dtype=torch.float64)
    assert in_tf32(lambda: [torch.conv2d(image, taps)]) is None
    special = torch.tensor([torch.inf, -torch.inf, torch.nan, 0.0, -1.0])
    assert torch.equal(rounded(special).nan_to_num(7.0), special.nan_to_num(7.0))


def test_a_convolution_without_memory_for_one_more_run_says_nothing_of_tf32() -> None:
    calls = []

    def outputs(inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        calls.append(inputs)
        if len(calls) == 2:
            raise torch.OutOfMemoryError("no memory")
        return [torch.conv1d(inputs[0], torch.ones(1, 1, 3))]

    arithmetic = SimpleNamespace(main=Tf32(convolutions=True), switched=contextlib.nullcontext)
    comparison, inputs = (
        Comparison(cast(Any, SimpleNamespace(arithmetic=arithmetic, outputs=outputs))),
        [torch.full((1, 1, 9), 1 / 3)],
    )
    assert comparison.in_fp32(inputs, None) is not None
    assert comparison.exactness.slack(None) == 0.0 and not comparison.exactness.knows_defaults
    assert comparison.in_fp32(inputs, None) is not None
    assert comparison.exactness.slack(None) > 1e-5 and len(calls) == 4, "the next check has the memory, and learns"


def test_default_refuses_bf16(default: LocalEvaluator) -> None:
    found = of(default, rounding(7))
    assert found.status is Status.WRONG_VALUE and found.precision == "default"


def test_default_accepts_tf32_in_a_search_and_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search makes one check, without fp64; its finalists are looked at more closely."""
    settings = replace(FAST, precision=Precision.DEFAULT, search=SearchSettings())
    pretend_gpu(monkeypatch)
    with Unguarded(settings=settings) as evaluator:
        (quick,) = evaluator.evaluate(problem(), rounding(10), [ONE])
        (final,) = evaluator.compare(problem(), rounding(10), [ONE])
        (wrong,) = evaluator.compare(problem(), rounding(7), [ONE])
    assert quick.ok and quick.reference is None and final.ok and final.speedup_default
    assert wrong.status is Status.WRONG_VALUE


def test_on_a_cpu_both_are_one(evaluator: LocalEvaluator) -> None:
    found = of(evaluator, EXACT)
    assert found.ok and found.default_is_reference and not found.baselines
    assert found.speedup is not None and found.speedup_default == found.speedup


def test_a_candidate_that_is_refused_for_its_source_has_the_policy_too(scale_problem: TorchProblem) -> None:
    settings = Settings(precision=Precision.DEFAULT, sandbox=Sandbox.NONE)
    with LocalEvaluator(settings=settings) as evaluator:
        (found,) = evaluator.evaluate(scale_problem, EXACT, [ONE])
    assert found.status is Status.REJECTED and found.precision == "default"


def test_the_errors_of_fp32_and_of_the_defaults_have_factors_of_their_own() -> None:
    import torch
    from torch.nn import Identity

    exact = torch.linspace(-1, 1, 1001, dtype=torch.float64)
    fp32, coarse = exact.float(), exact.float() * (1 + 1e-3)
    error = float(1e-3 / exact.square().mean().sqrt())
    learned = Fp64Comparison()
    learned.learn(None, [fp32], None)
    assert not learned.knows_defaults and learned.slack(None) == 0.0
    learned.learn([fp32], [coarse], None)
    assert learned.knows_defaults
    assert learned.slack(None) == pytest.approx(TIMES_DEFAULT * error, rel=1e-3)
    within, beyond = (exact.float() * (1 + times * TIMES_DEFAULT * 1e-3) for times in (0.9, 1.1))
    assert "status" not in learned.compare(Identity(), [exact], [coarse], [within], [fp32])
    found = learned.compare(Identity(), [exact], [coarse], [beyond], [fp32])
    assert found["status"] == Status.WRONG_VALUE
    assert "less exact than PyTorch's defaults for float32" in found["message"]
    assert found["torch_error_fp64"] == pytest.approx(1e-3, rel=1e-2)
    # Where the defaults are as exact as fp32, its own factor holds.
    same = Fp64Comparison()
    same.learn([coarse], [coarse], None)
    same.compare(Identity(), [exact], [coarse], [coarse], [coarse])
    assert same.slack(None) == pytest.approx(TIMES_TORCH * error, rel=1e-3)


@pytest.mark.parametrize("draw", ["randn", "rand"])
def test_between_tf32_however_it_is_made_and_bf16_lies_the_factor(draw: str) -> None:
    import torch

    torch.manual_seed(0)
    scope: dict[str, Any] = {"torch": torch}
    exec(ROUND, scope)
    for depth in (27, 576, 4096):
        x, w = getattr(torch, draw)(256, depth), torch.randn(depth, 256)
        exact = x.double() @ w.double()
        made = [("rounded", 10), ("cut", 10), ("rounded", 7)]
        tf32, cut, bf16 = (scope[how](x, bits).double() @ scope[how](w, bits).double() for how, bits in made)
        (rms, largest), (rms_cut, _), (rms_bf16, _) = (relative_error(exact, result) for result in (tf32, cut, bf16))
        assert 2 < rms_cut / rms < 3 < TIMES_DEFAULT < 7 < rms_bf16 / rms
        assert relative_error(tf32, cut)[1] < 0.8 * TIMES_DEFAULT * largest
        assert relative_error(tf32, bf16)[1] > 1.4 * TIMES_DEFAULT * largest


class _Memory(BaselineCache):
    """Knows every baseline."""

    def __init__(self) -> None:
        super().__init__(None)

    def get(self, key: str) -> CachedBaseline | None:
        measurement = Measurement(samples_ms=(1.0,))
        return CachedBaseline.between(measurement, measurement, {})


def fresh(settings: Settings, error: str | None = None, known: bool = False, same: bool = False) -> list[str]:
    """The baselines that would be timed."""
    timer = InterleavedTimer("cpu", settings, cast(Any, None), None)
    if known:
        timer._baselines = _Memory()
    client: Any = SimpleNamespace(
        problem=problem(),
        environment={"device": "a CPU"},
        arithmetic={"default_is_reference": same},
        call=lambda op, **_: {"error": error},
    )
    return timer._fresh_baselines(cast(ReferenceClient, client))


def test_a_baseline_that_a_target_is_against_is_timed_anew() -> None:
    asked = Settings(baselines=("compile", "max-autotune"))
    assert fresh(asked) == ["default", "compile", "max-autotune"]
    assert fresh(asked, same=True) == ["compile", "max-autotune"]
    assert fresh(asked, known=True) == ["default"]
    assert fresh(replace(asked, required_baseline="compile"), known=True) == ["default", "compile"]
    assert fresh(asked, error="no such thing") == ["default"]
    with pytest.raises(OptionError, match=re.escape("does not compile the reference of level1/1_999: no such thing")):
        fresh(replace(asked, required_baseline="compile"), error="no such thing")
