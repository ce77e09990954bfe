"""What a user may do wrong with a function: one message each, which says what and where."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from kernelwright.commands.tune.kernel import Options as TuneOptions
from kernelwright.core import Config, DeviceError, Evaluation, OptionError, ProblemError, Status
from kernelwright.core.languages import TRITON
from kernelwright.corpus.functions.translation import translate
from kernelwright.evaluators.guards.own_kernels import launches_nothing
from kernelwright.evaluators.local import LocalEvaluator
from kernelwright.runtime.jobs import find_job, require_timed

from .conftest import SETTINGS

KERNEL = """
import torch
import triton
import triton.language as tl


@triton.jit
def scale(x, y, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + at, tl.load(x + at, at < n) * 2.0, at < n)


def doubled(x):
    y = torch.empty_like(x)
    scale[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), 256)
    return y


class Scale:
    def __init__(self{parameters}):
        pass

    def forward(self, x):
        return doubled(x)


def function(x):
    return doubled(x)


def reference(x):
    return x * 2.0


def inputs(seed):
    return [torch.randn(8, 100)]
"""

TILELANG = """
import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[1])
def doubling(N):
    @T.prim_func
    def main(X: T.Tensor((N,), "float32"), Y: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=128):
            for i in T.Parallel(N):
                Y[i] = X[i] * 2.0

    return main


def function(x):
    return doubling(x.numel())(x)


def reference(x):
    return x * 2.0


def inputs(seed):
    return [torch.randn(128)]
"""


def judged(
    evaluator: LocalEvaluator, folder: Path, *changes: tuple[str, str], name: str = "function", parameters: str = ""
) -> Evaluation:
    path = folder / "ops_bad.py"
    text = KERNEL.replace("{parameters}", parameters)
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path.write_text(text)
    function = translate(f"{path}::{name}", f"{path}::reference", f"{path}::inputs")
    (found,) = evaluator.evaluate(function.problem, function.kernel, [Config()])
    return found


def test_a_function_that_launches_nothing(evaluator: LocalEvaluator, tmp_path: Path) -> None:
    found = judged(evaluator, tmp_path, ("return doubled(x)\n\n\ndef ref", "return x * 2.0\n\n\ndef ref"))
    assert found.rejection is not None and found.rejection.rule == "no-own-kernel"
    assert found.rejection.why == "ops_bad.py::function launches no kernel; name the function that launches it"


def test_a_function_that_launches_nothing_where_its_language_is_missing() -> None:
    found = launches_nothing("ops.py::f", replace(TRITON, modules=("no_such_library",)))
    assert found.why == (
        "ops.py::f launches no kernel; no_such_library is not installed here, so nothing of it can run"
    )


def test_a_package_that_cannot_be_imported(evaluator: LocalEvaluator, tmp_path: Path) -> None:
    with pytest.raises(ProblemError) as failed:
        judged(evaluator, tmp_path, ("import torch\n", "import torch\nimport no_such_library\n"))
    assert str(failed.value).endswith(
        "fails: ModuleNotFoundError: No module named 'no_such_library' (ops_bad.py, line 3: import no_such_library)"
    )


@pytest.mark.parametrize(
    ("returned", "status", "said"),
    [
        (
            "x * 2.0, x.half()",
            Status.WRONG_SHAPE,
            "returned 1 output (float32 [8, 100]), the reference 2 outputs (float32 [8, 100], float16 [8, 100])",
        ),
        ("(x * 2.0)[None]", Status.WRONG_SHAPE, "shape [8, 100], the reference has [1, 8, 100]"),
        ("(x * 2.0).half()", Status.WRONG_DTYPE, "dtype float32, the reference has float16"),
        ("x * 2.0, None", Status.WRONG_VALUE, "returned tensors alone; the reference tensor, None"),
    ],
)
def test_a_reference_with_other_outputs(
    evaluator: LocalEvaluator, tmp_path: Path, returned: str, status: Status, said: str
) -> None:
    found = judged(evaluator, tmp_path, ("return x * 2.0\n", f"return {returned}\n"))
    assert (found.status, found.message) == (status, said)


@pytest.mark.parametrize("device", ["cuda", "meta"])
def test_inputs_on_a_device_that_is_not_there(evaluator: LocalEvaluator, tmp_path: Path, device: str) -> None:
    with pytest.raises(ProblemError) as failed:
        judged(evaluator, tmp_path, ("randn(8, 100)", f'randn(8, 100, device="{device}")'))
    assert str(failed.value).endswith("; leave the device out where inputs are made, they are moved")
    assert device == "meta" or 'ops_bad.py, line 36: return [torch.randn(8, 100, device="cuda")]' in str(failed.value)


def test_a_class_without_its_constructors_arguments(evaluator: LocalEvaluator, tmp_path: Path) -> None:
    found = judged(evaluator, tmp_path, name="Scale.forward", parameters=", factor, other=3")
    assert found.status is Status.RUNTIME_ERROR
    assert found.message.startswith(
        "TypeError: Scale(factor, other=3) needs arguments; let the inputs function return a dict, and give them in it "
        "as 'self'"
    )
    assert judged(evaluator, tmp_path, name="Scale.forward", parameters=", other=3").correct


def test_a_file_that_assigns_its_own_name(evaluator: LocalEvaluator, tmp_path: Path) -> None:
    found = judged(evaluator, tmp_path, ("import torch\n", '__file__ = "elsewhere.py"\nimport torch\n'))
    assert found.correct, found.message


def test_an_error_names_the_line_of_the_users_file(evaluator: LocalEvaluator, tmp_path: Path) -> None:
    found = judged(evaluator, tmp_path, ("y = torch.empty_like(x)", 'raise ValueError("no")'))
    assert found.message.splitlines()[0] == "ValueError: no"
    assert 'ops_bad.py, line 14: raise ValueError("no")' in found.message


@pytest.mark.parametrize(("gpu", "multiprocessors"), [("T4", 40), ("H100", 132)])
def test_launchers_are_told_of_the_gpu_that_is_named(tmp_path: Path, gpu: str, multiprocessors: int) -> None:
    asked = "assert torch.cuda.get_device_properties(x.device).multi_processor_count == "
    settings = replace(SETTINGS, described_gpu=gpu)
    with LocalEvaluator("cpu", settings) as evaluator:
        change = "y = torch.empty_like(x)"
        found = judged(evaluator, tmp_path, (change, f"{asked}{multiprocessors}\n    {change}"))
    assert found.correct, found.message
    assert f"launchers see an {gpu}" in found.environment["triton_interpreter"]


def test_what_the_interpreter_cannot_do_is_no_fault_of_the_kernel(evaluator: LocalEvaluator, tmp_path: Path) -> None:
    assembly = 'tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [at], tl.int32, True, 1)'
    found = judged(evaluator, tmp_path, ("    tl.store", f"    at = {assembly}\n    tl.store"))
    assert "Triton's interpreter cannot run inline assembly (mov.b32 $0, $1;); on a GPU this may run" in found.message


def test_a_kernel_for_another_device_is_answered_with_what_can_be_changed(tmp_path: Path) -> None:
    """`backend` chooses among shipped kernels; a function is in the language that its file imports."""
    path = tmp_path / "ops_device.py"
    given = {name: f"{path}::{name}" for name in ("reference", "inputs")}
    path.write_text(KERNEL.replace("{parameters}", ""))
    job = find_job(TuneOptions(kernel=f"{path}::function", **given), f"{path}::function", "cpu")
    with pytest.raises(OptionError, match="cannot be optimized; use a CUDA device"):
        require_timed(job)
    path.write_text(TILELANG)
    imports = re.escape("a kernel for CPUs has `import tilelang.cpu.language as T`")
    with pytest.raises(DeviceError, match=f"is a CUDA kernel, and the device is the CPU; {imports}"):
        find_job(TuneOptions(kernel=f"{path}::function", **given), f"{path}::function", "cpu")
    with pytest.raises(DeviceError, match="use `backend` tilelang_cpu"):
        find_job(TuneOptions(kernel="2_10", backend="tilelang"), "2_10", "cpu")
