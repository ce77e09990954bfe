"""Records: what is one, what is not, and that what is read can be written again."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from kernelwright.core import ProblemError
from kernelwright.corpus.flashinfer_trace.dataset import parse_record
from kernelwright.corpus.flashinfer_trace.definition import Definition
from kernelwright.corpus.flashinfer_trace.record import Record
from kernelwright.corpus.flashinfer_trace.schema import Correctness, Solution, Trace, TraceEvaluation, Workload

from .folders import HERE, definition, solution

RECORDED = [
    *((Definition, path.read_text()) for path in (HERE / "dataset" / "definitions").rglob("*.json")),
    *((Solution, path.read_text()) for path in (HERE / "dataset" / "solutions").rglob("*.json")),
    *((Trace, line) for path in HERE.rglob("workloads/**/*.jsonl") for line in path.read_text().splitlines()),
    (Definition, (HERE / "sol_execbench" / "definition.json").read_text()),
    (Workload, (HERE / "sol_execbench" / "workload.jsonl").read_text().splitlines()[0]),
]


@pytest.mark.parametrize(("kind", "text"), RECORDED)
def test_what_is_written_again_says_the_same(kind: type[Record], text: str) -> None:
    record = kind.model_validate_json(text)
    assert kind.model_validate_json(record.to_json()) == record
    written = json.loads(record.to_json())
    for name, value in _without_none(json.loads(text)).items():
        assert _within(value, written[name]), name  # defaults may be added


def _within(value: Any, written: Any) -> bool:
    if isinstance(value, dict):
        return all(name in written and _within(item, written[name]) for name, item in value.items())
    return bool(value == written)


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_none(item) for name, item in value.items() if item is not None}
    return [_without_none(item) for item in value] if isinstance(value, list) else value


def test_unknown_fields_are_kept() -> None:
    """Other tools read the dataset too, and a Trace repeats its Workload."""
    line = {"axes": {"n": 1}, "inputs": {"x": {"type": "random", "seed": 3}}, "uuid": "u", "origin": {"model": "m"}}
    assert json.loads(Workload.model_validate(line).to_json()) == line


def test_errors_that_are_no_numbers_are_texts_as_the_original_writes_them() -> None:
    text = Correctness(max_relative_error=math.inf, max_absolute_error=math.nan).to_json()
    assert json.loads(text) == {"max_relative_error": "Infinity", "max_absolute_error": "NaN"}
    read = Correctness.model_validate_json(text)
    assert math.isinf(read.max_relative_error) and math.isnan(read.max_absolute_error)


EVALUATION = {"environment": {"hardware": "H"}, "timestamp": "2026-01-01T00:00:00"}
TIMES = {"latency_ms": 1, "reference_latency_ms": 2, "speedup_factor": 2}
AXES: dict[str, Any] = {"n": {"type": "var"}}
BROKEN: list[tuple[type[Record], dict[str, Any], str]] = [
    (Definition, definition(reference="def go(x): ..."), "reference: it defines no top-level function run"),
    (Definition, definition(reference="def run(x:"), "reference: no valid Python"),
    (Definition, definition(axes={"m": {"type": "var"}}), "inputs.x.shape: there is no axis n"),
    (Definition, definition(axes={"n": {"type": "size"}}), "axes.n: .*'const', 'var', 'expr'"),
    (Definition, definition(axes={"n": {"type": "const", "value": -1}}), "axes.n.const.value"),
    (Definition, definition(outputs={}), "outputs: there is none"),
    (Definition, definition(outputs={"x": {"shape": ["n"], "dtype": "int8"}}), "outputs.x: an input has this name"),
    (Definition, definition(inputs={"x": {"shape": ["n"], "dtype": "float33"}}), "inputs.x.dtype"),
    (Definition, definition(constraints=["n >"]), "constraints.0: 'n >' is not a Python expression"),
    (Definition, definition(custom_inputs_entrypoint="make"), "reference defines no function make"),
    (Definition, definition(axes=AXES | {"m": {"type": "expr", "expression": "k + 1"}}), "no const or var axis k"),
    (
        Definition,
        definition(axes=AXES | {"m": {"type": "expr", "expression": "n.bit_length()"}}),
        "Call is not allowed",
    ),
    (Workload, {"axes": {"n": -1}, "inputs": {}, "uuid": "u"}, "axes.n"),
    (Workload, {"axes": {}, "inputs": {"x": {"type": "random"}, "y": {"type": "custom"}}, "uuid": "u"}, "either all"),
    (Workload, {"axes": {}, "inputs": {"x": {"type": "scalar", "value": "1"}}, "uuid": "u"}, "inputs.x.scalar.value"),
    (
        Workload,
        {"axes": {}, "inputs": {"x": {"type": "safetensors", "path": "../../x", "tensor_key": "k"}}, "uuid": "u"},
        "leaves its folder",
    ),
    (Solution, solution({"main.py": "x"}, entry_point="main.py"), "'main.py' is not FILE::FUNCTION"),
    (Solution, solution({"main.py": "x"}, entry_point="other.py::run"), "sources has no file other.py"),
    (Solution, solution({"main.py": "x"}, language="fortran"), "spec.language"),
    (Solution, solution({"main.py": "x"}, languages=["triton"]), "spec: language: give it"),
    (Solution, solution({"../main.py": "x"}), "leaves its folder"),
    (Solution, solution({"/main.py": "x"}), "is absolute"),
    (TraceEvaluation, {"status": "PASSED", **EVALUATION, "correctness": {}}, "performance: status PASSED needs it"),
    (TraceEvaluation, {"status": "INCORRECT_NUMERICAL", **EVALUATION}, "correctness: status .* needs it"),
    (
        TraceEvaluation,
        {"status": "TIMEOUT", **EVALUATION, "performance": TIMES},
        "performance: .* TIMEOUT has none",
    ),
    (TraceEvaluation, {"status": "FINE", **EVALUATION}, "status"),
    (Trace, {"definition": "d", "workload": {"axes": {}, "inputs": {}, "uuid": "u"}, "solution": "s"}, "give both"),
]


@pytest.mark.parametrize(("kind", "record", "message"), BROKEN)
def test_what_cannot_be_is_refused_with_its_place_and_field(
    kind: type[Record], record: dict[str, Any], message: str
) -> None:
    with pytest.raises(ProblemError, match=message) as error:
        parse_record(kind, json.dumps(record), "here.json")
    assert str(error.value).startswith("here.json: ")
    assert "\n" not in str(error.value)
