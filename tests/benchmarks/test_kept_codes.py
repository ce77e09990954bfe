"""The compiler's code of problems in a file: what a line serves."""

from __future__ import annotations

import argparse
import json
import runpy
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kernelwright.core import TorchProblem
from kernelwright.core.generated_code import GeneratedCode
from kernelwright.evaluators.reference.generated_codes import GeneratedCodes
from kernelwright.evaluators.settings import AllowTorch, Lowering, Precision, Settings

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
HERE = {"device": "NVIDIA H200", "torch": "2.11.0"}
STRICT = Settings()
LIBRARY = Settings(precision=Precision.DEFAULT, allow_torch=AllowTorch.ALL)
TEMPLATES = Settings(precision=Precision.DEFAULT)


def code(text: str) -> GeneratedCode:
    return GeneratedCode(source=text, weights=(), inputs=(0,), form="tensor", configs={}, helpers={})


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(sys, "path", [str(BENCHMARKS), *sys.path])
    return SimpleNamespace(**runpy.run_path(str(BENCHMARKS / "kernelbench.py")))


def test_code_with_convolutions_serves_its_own_precision_and_library_only(
    tmp_path: Path, script: Any, scale_problem: TorchProblem
) -> None:
    path, convolution = tmp_path / "codes.jsonl", code("extern_kernels.convolution(x)")
    assert script.kept_codes(path, STRICT) == {} == script.kept_codes(None, STRICT)
    script.keep_code(path, scale_problem, convolution, LIBRARY)
    assert script.kept_codes(path, LIBRARY) == {scale_problem.id: convolution}
    assert script.kept_codes(path, TEMPLATES) == {} == script.kept_codes(path, STRICT)
    script.keep_code(path, scale_problem, code("relu"), LIBRARY)
    assert script.kept_codes(path, STRICT) == {scale_problem.id: code("relu")}


def test_a_line_without_a_mode_is_in_fp32(tmp_path: Path, script: Any, scale_problem: TorchProblem) -> None:
    path = tmp_path / "codes.jsonl"
    path.write_text(json.dumps({"id": "level1/1_1", "code": code("convolution").model_dump()}) + "\n")
    assert script.kept_codes(path, STRICT).keys() == {"level1/1_1"}
    assert script.kept_codes(path, LIBRARY) == {}
    with path.open("a") as file:
        file.write(json.dumps({"id": "level1/1_2", "generator": "earlier", "code": code("relu").model_dump()}) + "\n")
        file.write('{"id": "level1/1_3", "co')  # the process was killed
    assert script.kept_codes(path, STRICT).keys() == {"level1/1_1"}
    script.keep_code(path, scale_problem, code("relu"), STRICT)
    assert script.kept_codes(path, STRICT).keys() == {"level1/1_1", scale_problem.id}


def test_a_sweep_keeps_the_code_of_its_own_that_no_file_has(
    tmp_path: Path, script: Any, scale_problem: TorchProblem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(script.keep_from_cache.__globals__, "cache_folder", lambda: tmp_path / "cache")
    found = code("extern_kernels.convolution(x)")
    options = argparse.Namespace(
        precision=Precision.DEFAULT, allow_torch=AllowTorch.ALL, codes=None, keep_codes=tmp_path / "kept.jsonl"
    )
    cache, problem = GeneratedCodes(tmp_path / "cache", Lowering.LIBRARY), scale_problem.at("default")
    cache.put(scale_problem, HERE, found)
    script.keep_from_cache(problem, HERE, options)  # which has no code yet
    script.keep_from_cache(scale_problem, HERE, options)  # whose sizes are not its own
    assert not options.keep_codes.exists()
    cache.put(problem, HERE, found)
    for _ in range(2):
        script.keep_from_cache(problem, HERE, options)
    (line,) = options.keep_codes.read_text().splitlines()
    assert json.loads(line)["precision"] == "default" and json.loads(line)["library"]
    given = argparse.Namespace(**{**vars(options), "codes": options.keep_codes, "keep_codes": tmp_path / "new.jsonl"})
    script.keep_from_cache(problem, HERE, given)
    assert not given.keep_codes.exists()
