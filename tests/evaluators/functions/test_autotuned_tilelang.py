"""A function of TileLang under its autotuner, whose benchmark needs a GPU: one config is taken as it is."""

from __future__ import annotations

from pathlib import Path

import pytest
from kernelwright.core import Config, Status
from kernelwright.corpus.functions.translation import translate
from kernelwright.evaluators.local import LocalEvaluator
from kernelwright.evaluators.settings import AllowTorch

from ...conftest import OnGpu

FILE = """
import tilelang
import tilelang.cpu.language as T
import torch


@tilelang.autotune(configs={configs})
@tilelang.jit(out_idx=[1], target="c")
def doubling(M, BLOCK=2):
    @T.prim_func
    def main(X: T.Tensor((M,), "float32"), Y: T.Tensor((M,), "float32")):
        with T.Kernel(M // BLOCK) as b:
            for i in T.serial(BLOCK):
                Y[b * BLOCK + i] = X[b * BLOCK + i] * 2.0

    return main


def function(x):
    return doubling(x.numel(){argument})(x)


def reference(x):
    return x * 2.0


def inputs(seed):
    return [torch.randn(64)]
"""


@pytest.mark.parametrize(
    ("configs", "argument"),
    [
        pytest.param('[{"BLOCK": 16}]', "", id="a list"),
        pytest.param('lambda M: [{"BLOCK": M // 4}]', "", id="a function"),
        pytest.param('[{"BLOCK": 3}]', ", BLOCK=8", id="a value of the call, not the config's"),
    ],
)
def test_the_only_config_is_compiled_without_a_benchmark(
    evaluator: LocalEvaluator, tmp_path: Path, configs: str, argument: str
) -> None:
    path = tmp_path / "ops_autotuned.py"
    path.write_text(FILE.replace("{configs}", configs).replace("{argument}", argument))
    function = translate(f"{path}::function", f"{path}::reference", f"{path}::inputs")
    (found,) = evaluator.evaluate(function.problem, function.kernel, [Config()])
    assert found.status is Status.OK, found.message
    assert found.replay is not None and [step.split()[0] for step in found.replay.steps] == ["torch", "launch"]


def test_an_autotuner_without_the_decorator_works_too(evaluator: LocalEvaluator, tmp_path: Path) -> None:
    path = tmp_path / "ops_autotuner.py"
    text = FILE.replace(
        '@tilelang.autotune(configs={configs})\n@tilelang.jit(out_idx=[1], target="c")\ndef doubling(M, B',
        "def doubling(M=64, B",
    )
    text = text.replace("return doubling(x.numel(){argument})(x)", "return tuned().kernel(x)")
    text += """

def tuned():
    from tilelang.autotuner import AutoTuner

    tuner = AutoTuner.from_kernel(doubling, configs=[{"BLOCK": 8}]).set_compile_args(out_idx=[1], target="c")
    return tuner.run()
"""
    path.write_text(text)
    function = translate(f"{path}::function", f"{path}::reference", f"{path}::inputs")
    (found,) = evaluator.evaluate(function.problem, function.kernel, [Config()])
    assert found.status is Status.OK, found.message


@pytest.mark.gpu
def test_the_only_config_is_compiled_on_a_gpu(on_gpu: OnGpu, tmp_path: Path) -> None:
    path = tmp_path / "ops_autotuned.py"
    text = FILE.replace("{configs}", '[{"BLOCK": 32}]').replace("{argument}", "").replace("tilelang.cpu.", "tilelang.")
    text = text.replace(', target="c"', "").replace("T.Kernel(M // BLOCK)", "T.Kernel(M // BLOCK, threads=32)")
    path.write_text(text.replace("T.serial(BLOCK)", "T.Parallel(BLOCK)"))
    function = translate(f"{path}::function", f"{path}::reference", f"{path}::inputs")
    with on_gpu(allow_torch=AllowTorch.GLUE) as evaluator:
        (found,) = evaluator.evaluate(function.problem, function.kernel, [Config()])
    assert found.status is Status.OK, found.message
    assert found.replay is not None and [step.split()[0] for step in found.replay.steps] == ["torch", "launch"]
