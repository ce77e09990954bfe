"""A CPU's kernel in a plan is IR, from which its C is generated where it is replayed; nobody asks the kernel object."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from kernelwright.core import Config, Kernel, TorchProblem
from kernelwright.core.launch_plan import KernelCode, LaunchPlan
from kernelwright.evaluators.languages.tilelang import SUPPORT
from kernelwright.evaluators.local import LocalEvaluator
from kernelwright.evaluators.replay.executor import PlanExecutor
from kernelwright.evaluators.replay.record import Recorder
from kernelwright.evaluators.replay.tir.cpu import generated_c
from kernelwright.evaluators.replay.values import UnplannableCallError
from torch import nn

WRITTEN = "int32_t double_kernel(float* A, float* B) { for (int32_t i = 0; i < 64; ++i) { B[i] = 7.0f; } return 0; }"


@pytest.fixture(scope="module")
def compiled() -> Any:
    tilelang = pytest.importorskip("tilelang")
    import tilelang.cpu.language as T  # noqa: N812

    @T.prim_func
    def double(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32"), n: T.int32):  # type: ignore[valid-type]
        with T.Kernel(1):
            for i in T.serial(n):
                B[i] = A[i] * 2.0

    return tilelang.compile(double, target="c", compile_flags=["-O2"])


class Calls(nn.Module):
    def __init__(self, kernel: Any) -> None:
        super().__init__()
        self.kernel = kernel

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.empty_like(x)
        self.kernel(x, y, 64)
        return y


def recorded(kernel: Any) -> LaunchPlan:
    return LaunchPlan.model_validate_json(Recorder().record(Calls(kernel), [torch.zeros(64)]).model_dump_json())


def test_it_is_the_c_that_tilelang_generates(compiled: Any, tmp_path: Path) -> None:
    plan = recorded(compiled)
    ((digest, code),) = plan.codes.items()
    assert code.kind == "tir" and code.digest == digest
    assert sorted(code.parameters) == ["int32", "pointer", "pointer"]
    assert generated_c(plan.codes)[digest].text == compiled.get_kernel_source()
    x = torch.randn(64)
    assert torch.equal(PlanExecutor(plan, {}, tmp_path, "cpu")([x], {}), x * 2)


@pytest.mark.parametrize("name", ["get_kernel_source", "adapter.get_kernel_source", "kernelwright_code"])
def test_what_the_object_reports_is_not_read(
    compiled: Any, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: Any = lambda *_, **__: WRITTEN  # noqa: E731
    if name == "kernelwright_code":
        said = KernelCode(name="double", kind="c", text=WRITTEN, entry="double_kernel", parameters=("pointer",) * 2)
    owner = compiled.adapter if "." in name else compiled
    monkeypatch.setitem(vars(owner), name.rpartition(".")[2], said)
    x = torch.randn(64)
    assert torch.equal(PlanExecutor(recorded(compiled), {}, tmp_path, "cpu")([x], {}), x * 2)


def test_a_function_that_others_put_there_is_no_launch(compiled: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    really = compiled.torch_function
    monkeypatch.setitem(vars(compiled), "torch_function", lambda *given: really(*given))
    launched: list[KernelCode] = []

    def took(code: KernelCode, arguments: Sequence[Any], grid: Sequence[int] = ()) -> None:
        launched.append(code)

    with SUPPORT.recording(took), SUPPORT.counting(lambda name, function: pytest.fail(name)):
        compiled(torch.zeros(64), torch.zeros(64), 64)
    assert not launched


@pytest.mark.parametrize("text", ["", "{}", '{"device": "{}"}', '{"device": 3}'])
def test_what_is_no_ir_is_refused(text: str) -> None:
    code = KernelCode(name="double", kind="tir", text=text, entry="double_kernel", parameters=())
    with pytest.raises(UnplannableCallError, match="double: IR that does not compile"):
        generated_c({code.digest: code})


@pytest.mark.parametrize("packed", [False, True])
def test_recorded_c_is_not_replayed(
    packed: bool,
    proving: LocalEvaluator,
    scale_problem: TorchProblem,
    scale_kernel: Kernel,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A candidate's process may write what it likes into its plan."""
    really = LaunchPlan.model_validate_json.__func__  # type: ignore[attr-defined]

    def forged(cls: Any, text: Any, **options: Any) -> Any:
        plan = really(cls, text, **options)
        ((digest, code),) = generated_c(plan.codes).items()
        if packed:
            held = {number: plan.layouts[number] for number in plan.weights.values()}
            packing = LaunchPlan(
                inputs=(), weights=plan.weights, layouts=held, codes={code.digest: code}, steps=(), outputs=(),
                returns="tuple",
            )  # fmt: skip
            return plan.model_copy(update={"packing": packing})
        told = plan.model_copy(update={"codes": {code.digest: code}}).model_dump_json()
        return really(cls, told.replace(digest, code.digest), **options)

    monkeypatch.setattr(LaunchPlan, "model_validate_json", classmethod(forged))
    (found,) = proving.evaluate(scale_problem, scale_kernel, [Config({"BLOCK": 8})])
    assert found.replay is not None and not found.replay.replayed and found.replay.reason.startswith("C, which may")
