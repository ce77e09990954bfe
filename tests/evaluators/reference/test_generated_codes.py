"""Code of torch's compiler is kept: by problem, sizes, device and versions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from kernelwright.core import TorchProblem
from kernelwright.core.generated_code import GeneratedCode
from kernelwright.evaluators.local import LocalEvaluator
from kernelwright.evaluators.reference.client import ReferenceClient
from kernelwright.evaluators.reference.generated_codes import GeneratedCodes
from kernelwright.evaluators.reference.inductor_compiler import (
    OF_LOWERING,
    BenchmarkRefusedError,
    among_templates,
    chosen,
    only_one,
    without_benchmarks,
)
from kernelwright.evaluators.settings import AllowTorch, Lowering, Precision, Sandbox, Settings
from torch._inductor import config
from torch._inductor.runtime.benchmarking import benchmarker
from torch._inductor.select_algorithm import AlgorithmSelectorCache, TritonTemplateCaller

CODE = GeneratedCode(source="call", weights=("weight",), inputs=(0,), form="tensor", configs={}, helpers={})
HERE: Mapping[str, str] = {"device": "NVIDIA H200", "torch": "2.11.0", "triton": "3.6.0", "uuid": "7fe5"}


def test_a_code_is_found_for_the_same_problem_device_and_versions_only(
    tmp_path: Path, scale_problem: TorchProblem
) -> None:
    GeneratedCodes(tmp_path).put(scale_problem, HERE, CODE)
    codes = GeneratedCodes(tmp_path)
    assert codes.get(scale_problem, HERE) == CODE
    assert codes.get(scale_problem, {**HERE, "uuid": "another of this model"}) == CODE
    assert codes.get(scale_problem, {**HERE, "torch": "2.12.0"}) is None
    assert codes.get(scale_problem, {**HERE, "device": "NVIDIA H100"}) is None
    assert codes.get(scale_problem.at("tiny"), HERE) is None
    for other in (Lowering.LIBRARY, Lowering.LIBRARY_AS_GIVEN):
        assert GeneratedCodes(tmp_path, other).get(scale_problem, HERE) is None
    assert GeneratedCodes(None).get(scale_problem, HERE) is None


def test_a_file_of_another_version_is_no_code(tmp_path: Path, scale_problem: TorchProblem) -> None:
    codes = GeneratedCodes(tmp_path)
    codes.put(scale_problem, HERE, CODE)
    (file,) = (tmp_path / "generated").glob("*.json")
    file.write_text(file.read_text().replace('"form"', '"shape"'))
    assert codes.get(scale_problem, HERE) is None


def test_the_compiler_is_asked_once(
    tmp_path: Path, scale_problem: TorchProblem, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[GeneratedCode | str] = ["its library computes all of it", CODE]
    monkeypatch.setattr(ReferenceClient, "generate", lambda client, lowering: answers.pop(0))
    with LocalEvaluator("cpu", Settings(sandbox=Sandbox.NONE), tmp_path) as evaluator:
        assert evaluator.generated_code(scale_problem) == "its library computes all of it"
        assert evaluator.generated_code(scale_problem) == CODE  # a refusal is not kept
        assert evaluator.generated_code(scale_problem) == CODE
    assert answers == []


@pytest.mark.parametrize(
    ("name", "allow_torch", "precision", "lowering"),
    [
        ("level1/1_999", AllowTorch.ALL, Precision.DEFAULT, Lowering.LIBRARY),
        ("level1/1_999", AllowTorch.ALL, Precision.FP32, Lowering.TEMPLATES),
        ("level1/1_999", AllowTorch.GLUE, Precision.DEFAULT, Lowering.TEMPLATES),
        ("level1/1_999", None, Precision.DEFAULT, Lowering.TEMPLATES),
        ("mine", None, Precision.DEFAULT, Lowering.LIBRARY),
        ("mine", None, Precision.FP32, Lowering.TEMPLATES),
        ("mine", AllowTorch.GLUE, Precision.DEFAULT, Lowering.TEMPLATES),
    ],
)
def test_the_library_is_left_where_its_operators_and_its_precision_are_allowed(
    scale_problem: TorchProblem,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    allow_torch: AllowTorch | None,
    precision: Precision,
    lowering: Lowering,
) -> None:
    asked: list[Lowering] = []

    def generate(client: ReferenceClient, lowering: Lowering) -> str:
        asked.append(lowering)
        return "nothing"

    monkeypatch.setattr(ReferenceClient, "generate", generate)
    settings = Settings(allow_torch=allow_torch, precision=precision, sandbox=Sandbox.NONE)
    with LocalEvaluator("cpu", settings) as evaluator:
        evaluator.generated_code(replace(scale_problem, id=name))
    assert asked == [lowering]


def test_templates_are_the_only_choices_where_there_are_some(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AlgorithmSelectorCache, "__call__", lambda self, name, choices: choices)
    template, other = object.__new__(TritonTemplateCaller), object()
    choose = object.__new__(AlgorithmSelectorCache)
    with chosen(among_templates):
        assert choose("mm", [other, template]) == [template]
        assert choose("mm", [other]) == [other]
    with chosen(only_one):
        assert choose("mm", [other]) == [other]
        with pytest.raises(BenchmarkRefusedError, match="have to be measured"):
            choose("mm", [other, template])


def test_inductor_measures_nothing_that_others_would_notice() -> None:
    """Whether to pad a product is decided by measuring, too."""
    with without_benchmarks(), pytest.raises(BenchmarkRefusedError):
        benchmarker.benchmark_gpu(lambda: None)
    assert "benchmark_gpu" not in vars(benchmarker)


@pytest.mark.parametrize("settings", OF_LOWERING.values(), ids=map(str, OF_LOWERING))
def test_inductor_has_the_settings_of_convolutions(settings: Mapping[str, object]) -> None:
    """One that it does not know would be left out without a word."""
    assert settings.keys() <= config._config.keys()
