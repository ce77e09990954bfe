"""`tune gemm` on a faked AMD GPU: the whole flow of a search. No AMD GPU was there: times are made up.

HIP's runtime is a library that answers as HIP's does; the evaluator compiles each config for gfx942 with Triton's
backend, and fails what does not compile. Everything else is the product's own.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from kernelwright.cli.main import app
from kernelwright.core import (
    Ceilings,
    Config,
    Correctness,
    Evaluation,
    Kernel,
    Measurement,
    Origin,
    Profile,
    Status,
    TorchProblem,
)
from kernelwright.evaluators.compilation.cross import CrossCompiled, compile_for
from kernelwright.runtime import runtime
from kernelwright.runtime.devices import device_limits, device_of
from typer.testing import CliRunner

from ..faked_hip import built, faked_hip

SIZES = ("-m", "512", "-n", "1024", "-k", "2048")


class FakedHip:
    """Compiles for gfx942, and has the times of a made-up GPU: fast are many registers, slow are waves that wait."""

    def __init__(self) -> None:
        self.compiled: dict[Config, CrossCompiled] = {}

    def __enter__(self) -> FakedHip:
        return self

    def __exit__(self, *_: object) -> None:
        """End."""

    def evaluate(
        self, problem: TorchProblem, kernel: Kernel, configs: Iterable[Config], known: Sequence[Evaluation] = ()
    ) -> Generator[Evaluation]:
        for config in configs:
            yield self._one(problem, kernel, config)

    def compare(self, problem: TorchProblem, kernel: Kernel, configs: Sequence[Config]) -> list[Evaluation]:
        return [self._one(problem, kernel, config) for config in configs]

    def profile(self, problem: TorchProblem) -> Profile:
        ceilings = Ceilings(copy_gb_s=4000, matrix_gflop_s=80_000, half_gflop_s=700_000, cores=304)
        return Profile(
            flops=2e9, matrix_flops=2e9, min_bytes=1e6, eager_bytes=1e6, ceilings=ceilings,
            limits=device_limits("cuda"), device="AMD Instinct MI300X",
        )  # fmt: skip

    def _one(self, problem: TorchProblem, kernel: Kernel, config: Config) -> Evaluation:
        common: dict[str, Any] = {
            "kernel_digest": kernel.digest, "config": dict(config), "origin": Origin.SIMULATED,
            "environment": {"device": "AMD Instinct MI300X", "triton": "3.6.0", "hip": "7.0"},
        }  # fmt: skip
        if config not in self.compiled:
            (self.compiled[config],) = compile_for("gfx942", [(problem, kernel.bind(config))])
        product = self.compiled[config].product()
        if product is None:
            return Evaluation(status=Status.COMPILE_ERROR, message=self.compiled[config].error, **common)
        time_ms = 1 / product.registers + 0.01 * float(config.get("WAVES_PER_EU", 0))
        return Evaluation(
            status=Status.OK,
            correctness=Correctness(seeds=(1,), max_abs_error=0, max_rel_error=1e-3, tolerance=1e-2, passed=True),
            measurement=Measurement(samples_ms=(time_ms,) * 3),
            reference=Measurement(samples_ms=(0.02,) * 3),
            **common,
        )


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("hip"))


@pytest.fixture
def evaluator(library: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakedHip]:
    found = FakedHip()

    def search_evaluator(devices: list[str], *_: object, **__: object) -> FakedHip:
        assert devices == ["cuda"]
        return found

    monkeypatch.setattr(runtime, "search_evaluator", search_evaluator)
    with faked_hip(library):
        yield found


def run(*arguments: str | Path) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["tune", "gemm", *map(str, arguments)])
    return result.exit_code, result.stdout, result.stderr


def test_the_whole_flow(evaluator: FakedHip, tmp_path: Path) -> None:
    output, results = tmp_path / "tuned.yaml", tmp_path / "results"
    common = ("--sandbox", "none", "--results", results, "--format", "tune-gemm", "--output", output, "--trials", "2")
    code, shown, warned = run(*SIZES, *common, "--json")
    assert code == 0, warned
    summary = json.loads(shown)
    (shape,) = summary["shapes"]
    assert summary["device"] == "AMD Instinct MI300X"
    assert {"WAVES_PER_EU", "KPACK", "MATRIX_INSTR_NONKDIM"} <= shape["config"].keys()
    products = [item.product() for item in evaluator.compiled.values()]
    assert products and {item.tensor_cores for item in products if item} == {("mfma f16",)}
    (line,) = yaml.safe_load(output.read_text())
    assert {"waves_per_eu", "kpack", "matrix_instr_nonkdim", "BLOCK_SIZE_M"} <= line.keys()
    assert "TFLOPS" in output.read_text() and "not measured" not in output.read_text()
    assert (results / "gemm" / "gemm_float16_tn_tune-gemm_amd_instinct_mi300x" / "sweep.json").exists()
    before = len(evaluator.compiled)
    assert run(*SIZES, *common, "--resume")[0] == 0
    assert len(evaluator.compiled) == before


@pytest.mark.usefixtures("evaluator")
def test_files_of_aiter_have_the_architectures_name(tmp_path: Path) -> None:
    code, _, warned = run(
        *SIZES, "--sandbox", "none", "--results", tmp_path, "--format", "aiter", "--output", tmp_path, "--trials", "1"
    )
    assert code == 0, warned
    names = {path.name for path in tmp_path.glob("*.json")}
    assert any(name.startswith("gfx942-GEMM-") and name.endswith("-N=1024-K=2048.json") for name in names), names


@pytest.mark.usefixtures("evaluator")
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--backend", "tilelang"), "TileLang's matrix products are not for gfx942; use --backend triton"),
        (("--format", "kernelwright"), "--format kernelwright is for operators of NVIDIA's GPUs"),
        (("--device", "cuda:5"), "no device cuda:5: the driver shows 2 GPU(s)"),
        (("--device", "cuda:0,cuda:1"), "cuda:1 is not the same kind of GPU as cuda:0"),
    ],
)
def test_mistakes_are_one_line(arguments: tuple[str, ...], says: str, tmp_path: Path) -> None:
    engine = () if "--format" in arguments or "tilelang" in arguments else ("--format", "aiter")
    code, _, warned = run(*SIZES, "--sandbox", "none", "--results", tmp_path, *engine, *arguments)
    assert code == 2 and says in warned and len(warned.strip().splitlines()) == 1


@pytest.mark.usefixtures("evaluator")
def test_the_device_is_known_by_its_architecture() -> None:
    assert (device_of("cuda").architecture, device_of("cuda:1").architecture) == ("gfx942", "gfx950")
