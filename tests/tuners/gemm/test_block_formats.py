"""MXFP8 and NVFP4 in `tune gemm`: who has them, starts, files, operators, and the command in the interpreter.

No GPU that multiplies these formats was there.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace

import pytest
from kernelwright.cli.main import app
from kernelwright.commands.tune._gemm_compiled import device_of_architecture
from kernelwright.commands.tune._gemm_options import Options, task_of
from kernelwright.core import OptionError
from kernelwright.core.devices import architectures
from kernelwright.evaluators.compilation.cross import compile_for
from kernelwright.runtime import devices
from kernelwright.tuners.gemm.analytic import analytic_choice, space_for
from kernelwright.tuners.gemm.device import H200_LIMITS, Device
from kernelwright.tuners.gemm.lookup import load_config
from kernelwright.tuners.gemm.shapes import Shape
from kernelwright.tuners.gemm.stores import store_of
from kernelwright.tuners.gemm.stores.store import ConfigEntry, ConfigKey
from typer.testing import CliRunner

FORMATS = ("mxfp8", "nvfp4")
BLACKWELL = ("sm_100", "sm_120")
PROGRAM = """
import json, warnings
from pathlib import Path
from kernelwright.corpus import find_problem
from kernelwright.evaluators.languages.triton import SUPPORT
from kernelwright.evaluators.workers.modules import ProblemModule
from kernelwright.ops import gemm as ops

SUPPORT.prepare("cpu")
warnings.simplefilter("ignore")
found = {}
for name in ("mxfp8", "nvfp4"):
    problem = ProblemModule(Path(find_problem(name).read().path), {"M": 24, "N": 40, "K": 96, "OUT": "float16"}, "cpu")
    inputs = problem.inputs(0)
    expected, result = problem.model(0)(*inputs).float(), getattr(ops, name)(*inputs, "float16")
    error = float((result.float() - expected).abs().max() / expected.abs().max())
    found[name] = {"error": error, "dtype": str(result.dtype)}
    try:
        getattr(ops, name)(*inputs[:2], inputs[2][:, 1:], *inputs[3:])
    except ValueError as error:
        found[name]["refused"] = str(error)
print(json.dumps(found))
"""


def options(product: str) -> Options:
    return Options(product=product, m=(1024,), n=4096, k=4096)


@pytest.mark.parametrize("product", FORMATS)
def test_blackwell_has_them_and_others_say_so_in_one_line(product: str) -> None:
    having = [name for name in architectures() if product in architectures()[name].block_scaled]
    assert having == list(BLACKWELL)
    for name in having:
        device_of_architecture(name).require(product)
    Device("cpu", H200_LIMITS).require(product)
    with pytest.raises(OptionError) as refused:
        Device("NVIDIA H200", H200_LIMITS).require(product)
    said = f"NVIDIA H200 has no {product} products (sm_90); use a GPU of sm_100 or sm_120; `device` cpu checks"
    assert str(refused.value).startswith(said)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("architecture", BLACKWELL)
def test_the_analytic_choice_fits_and_compiles(architecture: str) -> None:
    cases, shape = [], Shape(n=4096, k=4096, m=1024)
    for name in FORMATS:
        task = task_of(options(name), device_of_architecture(architecture), timed=True)
        product = task.product(shape)
        assert (product.element_bytes, product.sums, product.scaled) == (1 if name == "mxfp8" else 0.5, 1, False)
        space = space_for(task.kernel, shape, product, task.limits, task.fixed)
        choice = analytic_choice(space, task.limits, product)
        assert int(choice["BLOCK_SIZE_M"]) == 128
        cases.append((task.problem(shape), task.kernel.bind(choice)))
    for compiled in compile_for(architecture, cases):
        kernel = compiled.product()
        assert kernel is not None, compiled.error
        assert (kernel.shared_bytes or 0) <= architectures()[architecture].block_shared_bytes


def test_deeper_steps_fit_where_values_have_half_a_byte() -> None:
    shape = Shape(n=4096, k=4096, m=1024)
    deep = {"BLOCK_SIZE_M": 128, "BLOCK_SIZE_N": 128, "BLOCK_SIZE_K": 256, "NUM_STAGES": 4, "NUM_WARPS": 8}
    for name in FORMATS:
        task = task_of(options(name), device_of_architecture("sm_120"), timed=True)
        space = space_for(task.kernel, shape, task.product(shape), task.limits, task.fixed)
        assert any(config.items() >= deep.items() for config in space) == (name == "nvfp4")


@pytest.mark.parametrize("product", FORMATS)
def test_a_tuned_file_is_found_and_without_one_the_analytic_choice(product: str, tmp_path: Path) -> None:
    device = device_of_architecture("sm_100")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        choice = load_config(product, 512, 4096, 4096, device, folder=tmp_path)
    key, tuned = ConfigKey(product, product, device), {**choice, "GROUP_SIZE_M": 16, "NUM_STAGES": 2}
    entry = ConfigEntry(Shape(4096, 4096, 512), type(choice)(tuned))
    path, *_ = store_of("kernelwright").save(tmp_path, key, [entry], {})
    assert path.name == f"NVIDIA_B200-GEMM-{product.upper()}-N=4096-K=4096.json"
    assert dict(load_config(product, 512, 4096, 4096, device, folder=tmp_path)) == tuned


def test_the_operators_are_right_in_the_interpreter(tmp_path: Path) -> None:
    environment = {**os.environ, "KERNELWRIGHT_GEMM_CONFIGS": str(tmp_path), "TRITON_INTERPRET": "1"}
    run = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=environment, check=False)
    assert run.returncode == 0, run.stderr[-2000:]
    for name, found in json.loads(run.stdout).items():
        assert found["error"] < 2**-8 and found["dtype"] == "torch.float16"
        assert found["refused"].endswith(f"see {name}'s documentation")


def tuned(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["tune", "gemm", *map(str, arguments)])
    return result.exit_code, result.stdout, result.stderr


@pytest.mark.parametrize("product", FORMATS)
def test_the_command_checks_the_choice_in_the_interpreter(product: str, tmp_path: Path) -> None:
    sizes = ("-m", 40, "-n", 128, "-k", 224, "--dtype", "fp16", "--device", "cpu", "--sandbox", "none")
    code, shown, warned = tuned(product, *sizes, "--results", tmp_path / "results", "--output", tmp_path)
    assert code == 0, warned
    assert "[1/1] M=40 N=128 K=224: analytic choice, checked, not timed" in shown
    assert (tmp_path / f"cpu-GEMM-{product.upper()}-N=128-K=224.json").exists()


def test_a_depth_without_whole_scales_is_left_out(tmp_path: Path) -> None:
    sizes = ("-m", 16, "-n", 64, "-k", 48, "--device", "cpu", "--sandbox", "none", "--results", tmp_path)
    code, _, warned = tuned("mxfp8", *sizes, "--output", tmp_path)
    assert code == 1 and "K=48 is not a multiple of 32, for which mxfp8 has a scale; pad it" in warned


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("mxfp8", "--backend", "tilelang"), "there is no mxfp8 in --backend tilelang; use triton"),
        (("nvfp4", "--format", "vllm"), "--format vllm has no files of nvfp4; use kernelwright"),
        (("nvfp4", "--dtype", "fp8"), "--dtype 'fp8' is not supported for nvfp4; use bfloat16 or float16"),
        (
            ("mxfp8", "--compile-only", "--arch", "sm_100"),
            "no --format holds choices of mxfp8 that were not measured; leave out --compile-only",
        ),
        (("mxfp8",), "NVIDIA H200 has no mxfp8 products (sm_90); use a GPU of sm_100 or sm_120; --device cpu checks"),
    ],
)
def test_mistakes_are_one_line(arguments: tuple[str, ...], why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = SimpleNamespace(count=lambda: 1, name=lambda _: "NVIDIA H200", limits=lambda _: H200_LIMITS)
    monkeypatch.setattr(devices, "present", lambda: gpu)
    code, _, warned = tuned(*arguments, "-m", 16, "-n", 64, "-k", 64)
    assert code == 2 and why in warned and len(warned.strip().splitlines()) == 1
