"""A Definition as a problem: its Workloads are the sizes, its recorded tensors the inputs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from kernelwright.core import JointProblem, ProblemError
from kernelwright.corpus.flashinfer_trace.dataset import TraceDataset
from kernelwright.corpus.flashinfer_trace.problem import recorded_problem
from kernelwright.evaluators.correctness.alternate_shapes import alternate_sizes
from kernelwright.evaluators.remote.payload import ProblemText
from kernelwright.evaluators.workers.modules import ProblemModule
from kernelwright.evaluators.workers.problem_file import problem_options

from .folders import BAG, HERE, RMS, copied_sol, definition

DATASET = TraceDataset.read(HERE / "dataset")


def loaded(problem: Any, folder: Path) -> ProblemModule:
    options = problem_options(problem, folder)
    return ProblemModule(Path(options["problem"]), json.loads(json.dumps(options["sizes"])), "cpu")


def dataset_of(folder: Path, uuids: dict[str, int], **fields: Any) -> TraceDataset:
    """A dataset of one Definition; the Workloads have these sizes."""
    record = definition(**fields)
    (folder / "definitions").mkdir(parents=True)
    (folder / "definitions" / "double.json").write_text(json.dumps(record))
    (folder / "workloads").mkdir()
    inputs = {name: {"type": "random"} for name in record["inputs"]}
    lines = [
        {"definition": "double", "workload": {"uuid": uuid, "axes": {"n": n}, "inputs": inputs}}
        for uuid, n in uuids.items()
    ]
    (folder / "workloads" / "double.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return TraceDataset.read(folder)


def test_the_default_is_the_largest_workload(tmp_path: Path) -> None:
    problem = recorded_problem(dataset_of(tmp_path, {"b": 2, "c": 30, "a": 4}), "double")
    assert problem.at("default").workload == "c"
    assert problem.at("default").integers["n"] == 30
    assert problem.at("n=7").sizes == {"n": 7}
    assert (alternate_sizes(problem.at("c")) or {})["n"] == 2  # the smallest serves to check other sizes
    assert "WORKLOADS" not in problem.source
    with pytest.raises(ProblemError, match="no workload 'd'; it has default, b, a, c"):
        problem.at("d")


def test_workloads_judged_together_keep_what_is_their_own(tmp_path: Path) -> None:
    """Their files and tolerances; of many, those that are spread over all sizes."""
    bags = JointProblem.of_all(recorded_problem(DATASET, BAG))
    assert isinstance(bags, JointProblem) and list(bags.members) == ["bag-4", "bag-8"]
    assert [loaded(problem, tmp_path).inputs(0)[1].shape for problem in bags.members.values()] == [(4, 3), (8, 5)]
    assert bags.files_at(bags.sizes) == bags.members["bag-8"].files_at(bags.sizes)
    (name,) = (sol := TraceDataset.read(copied_sol(tmp_path))).definitions
    permuted = JointProblem.of_all(recorded_problem(sol, name))
    assert isinstance(permuted, JointProblem)
    assert {problem.tolerances["float32"].cap for problem in permuted.members.values()} != {1e300}
    many = recorded_problem(dataset_of(tmp_path / "many", {f"w{n}": n for n in range(1, 21)}), "double")
    spread = JointProblem.of_all(many, 4)
    assert isinstance(spread, JointProblem) and list(spread.members) == ["w1", "w7", "w14", "w20"]
    assert spread.sizes["n"] == 20 and spread.at("n=7").sizes_key != spread.sizes_key
    only = JointProblem.of_all(recorded_problem(dataset_of(tmp_path / "one", {"a": 2}), "double"))
    assert not isinstance(only, JointProblem) and only.workload == "a"


def test_sizes_of_a_single_workload_are_not_changed_one_by_one(tmp_path: Path) -> None:
    tensor = {"shape": ["N"], "dtype": "float32"}
    axes = {"n": {"type": "var"}, "N": {"type": "const", "value": 4}}
    dataset = dataset_of(tmp_path, {"a": 2}, axes=axes, inputs={"x": tensor}, outputs={"y": tensor})
    assert alternate_sizes(recorded_problem(dataset, "double").at("a")) is None


def test_scalars_and_axes_are_the_workloads_own(tmp_path: Path) -> None:
    problem = recorded_problem(DATASET, RMS).at("rms-4")
    module = loaded(problem, tmp_path)
    x, weight, eps = module.inputs(0)
    assert (x.shape, weight.shape, eps) == ((4, 128), (128,), 1e-5)
    assert module.model(0)(x, weight, eps).shape == (4, 128)
    assert not hasattr(module.module, "run")  # a candidate cannot call it


def test_recorded_tensors_are_read_from_beside_the_source(tmp_path: Path) -> None:
    problem = recorded_problem(DATASET, BAG).at("bag-4")
    table, indices = loaded(problem, tmp_path).inputs(0)
    assert (table.shape, indices.shape, indices.dtype) == ((32, 64), (4, 3), torch.int32)
    assert torch.equal(loaded(problem, tmp_path).inputs(1)[1], indices)
    with pytest.raises(ProblemError, match="other machines do not have"):
        ProblemText.of(problem)
    assert ProblemText.of(recorded_problem(DATASET, RMS)).name == RMS


def test_the_other_workloads_files_are_there_too(tmp_path: Path) -> None:
    problem = recorded_problem(DATASET, BAG).at("bag-8")
    options = problem_options(problem, tmp_path, alternate_sizes(problem) or {})
    module = ProblemModule(Path(options["problem"]), problem.workloads["bag-4"], "cpu")
    assert module.inputs(0)[1].shape == (4, 3)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float8_e4m3fn", "int8", "int64", "bool"])
def test_random_inputs_have_their_dtype(tmp_path: Path, dtype: str) -> None:
    tensors = {"x": {"shape": ["n", "4"], "dtype": dtype}, "scale": {"shape": None, "dtype": "float32"}}
    dataset = dataset_of(tmp_path, {"a": 3}, inputs=tensors, reference="def run(x, scale):\n    return x\n")
    x, scale = loaded(recorded_problem(dataset, "double"), tmp_path).inputs(0)
    assert (str(x.dtype), x.shape) == (f"torch.{dtype}", (3, 4)) and isinstance(scale, float)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"outputs": {"y": {"shape": None, "dtype": "float32"}}}, "the output y is a number"),
        ({"inputs": {"x": {"shape": ["n"], "dtype": "float4_e2m1"}}}, "x has the dtype float4_e2m1"),
        ({"reference": "n = 3\ndef run(x):\n    return x"}, "its reference assigns n"),
        ({"reference": "class Model: ...\ndef run(x):\n    return x"}, "its reference assigns Model"),
        ({"reference": "MATCHED = 0.5\ndef run(x):\n    return x"}, "its reference assigns MATCHED"),
        ({"inputs": {"a-b": {"shape": ["n"], "dtype": "int8"}}}, "'a-b' is not a Python name"),
    ],
)
def test_a_definition_that_can_be_no_module_says_why(tmp_path: Path, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ProblemError, match=f"Definition double: .*{message}"):
        recorded_problem(dataset_of(tmp_path, {"a": 1}, **fields), "double")


def test_a_definition_without_workloads_says_so(tmp_path: Path) -> None:
    with pytest.raises(ProblemError, match="has no Workloads; record one"):
        recorded_problem(dataset_of(tmp_path, {}), "double")


def test_sol_execbench_has_expressions_custom_inputs_and_tolerances(tmp_path: Path) -> None:
    dataset = TraceDataset.read(copied_sol(tmp_path))
    problem = recorded_problem(dataset, "permute_rows_h32").at("rows-8")
    x, order = loaded(problem, tmp_path).inputs(0)
    assert (x.shape, sorted(order.tolist())) == ((8, 64), list(range(8)))
    allowed = problem.tolerances["float32"]
    assert (allowed.absolute, allowed.relative, allowed.matched, allowed.cap) == (1e-2, 1e-2, 0.9, 5.0)
    assert recorded_problem(DATASET, RMS).at("rms-4").tolerances["float32"].absolute == 1e-4
