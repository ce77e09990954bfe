"""A dataset's folder: what refers to nothing is one message, and what is added is whole."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kernelwright.core import KernelError, ProblemError
from kernelwright.corpus import find_problem, list_problems
from kernelwright.corpus.flashinfer_trace.dataset import TraceDataset
from kernelwright.corpus.flashinfer_trace.schema import Trace
from kernelwright.corpus.recorded import find_solution

from .folders import BAG, GEMM, HERE, RMS, changed, copied, copied_sol

WORKLOADS = f"workloads/embedding/{BAG}.jsonl"
TRACE: dict[str, Any] = {
    "definition": RMS,
    "workload": {"axes": {"batch_size": 4}, "inputs": {}, "uuid": "rms-4"},
    "solution": "rmsnorm_triton",
    "evaluation": {"status": "TIMEOUT", "environment": {"hardware": "H"}, "timestamp": "now"},
}


def test_the_dataset_of_the_tests_is_whole() -> None:
    dataset = TraceDataset.read(HERE / "dataset")
    assert sorted(dataset.definitions) == [BAG, GEMM, RMS]
    assert {name: len(dataset.workloads(name)) for name in dataset.definitions} == {BAG: 2, GEMM: 2, RMS: 2}
    assert len(dataset.solutions) == 5


def test_a_dataset_is_recognised_by_its_folders(tmp_path: Path) -> None:
    assert [file.id for file in list_problems(HERE / "dataset")] == [BAG, GEMM, RMS]
    assert [file.id for file in list_problems(copied_sol(tmp_path))] == ["permute_rows_h32"]
    assert find_problem(GEMM, HERE / "dataset").read().workload == "default"
    with pytest.raises(ProblemError, match="give a KernelBench checkout, or a flashinfer-trace dataset"):
        list_problems(HERE / "dataset" / "blob")


def _set(*path: Any, to: Any) -> Callable[[Any], None]:
    def change(record: Any) -> None:
        for name in path[:-1]:
            record = record[name]
        record[path[-1]] = to

    return change


def _drop(*path: Any) -> Callable[[Any], None]:
    def change(record: Any) -> None:
        for name in path[:-1]:
            record = record[name]
        del record[path[-1]]

    return change


INDICES = ("workload", "inputs", "indices")
BROKEN: list[tuple[str, Callable[[Any], None], str]] = [
    (f"definitions/gemm/{GEMM}.json", _set("axes", "K", to={}), r"gemm_n64_k64.json: axes.K"),
    (f"definitions/gemm/{GEMM}.json", _set("op_type", to=None), "op_type: the folders of its Solutions"),
    (f"definitions/gemm/{GEMM}.json", _set("op_type", to="../a"), "op_type: String should match"),
    (f"definitions/gemm/{GEMM}.json", _set("name", to=RMS), f"name: there is another Definition {RMS}"),
    (f"solutions/gemm/{GEMM}/gemm_cuda.json", _set("definition", to="gem"), "definition: there is no Definition gem"),
    (f"solutions/gemm/{GEMM}/gemm_cuda.json", _set("name", to="rmsnorm_triton"), "name: there is another Solution"),
    (WORKLOADS, _set("definition", to=RMS), f"line 1: definition: {RMS}, in the file of {BAG}"),
    (WORKLOADS, _set("workload", "uuid", to="bag-8"), "line 2: workload.uuid: bag-8 stands there twice"),
    (WORKLOADS, _drop("workload", "axes", "bags"), "line 1: workload.axes: it lacks bags"),
    (WORKLOADS, _set("workload", "axes", "bag", to=1), "workload.axes.bag: .* has no such axis"),
    (
        WORKLOADS,
        _set("workload", "axes", "bags", to=5),
        r"indices: .* the shape \[4, 3\], the axes give \[5, 3\]",
    ),
    (WORKLOADS, _drop(*INDICES), "workload.inputs: it lacks indices"),
    (WORKLOADS, _set("workload", "inputs", "index", to={"type": "random"}), "workload.inputs.index: .* no such input"),
    (WORKLOADS, _set(*INDICES, "path", to="blob/none.safetensors"), "inputs.indices.path: there is no file"),
    (WORKLOADS, _set(*INDICES, "path", to=WORKLOADS), "inputs.indices.path: .* is not a safetensors file"),
    (WORKLOADS, _set(*INDICES, "tensor_key", to="index"), "inputs.indices.tensor_key: .* has no tensor index"),
    (WORKLOADS, _set(*INDICES, to={"type": "scalar", "value": 1}), "inputs.indices: a number, and .* has a tensor"),
    (WORKLOADS, _set(*INDICES, to={"type": "custom"}), "either all are custom, or none"),
    (f"definitions/embedding/{BAG}.json", _set("inputs", "indices", "dtype", to="int64"), "has int32, .* int64"),
]


@pytest.mark.parametrize(("file", "change", "message"), BROKEN)
def test_a_broken_reference_names_file_and_field(
    tmp_path: Path, file: str, change: Callable[[Any], None], message: str
) -> None:
    root = copied(tmp_path)
    changed(root / file, change)
    with pytest.raises(ProblemError, match=message) as error:
        TraceDataset.read(root).workloads(BAG)
    assert str(tmp_path) in str(error.value) and "\n" not in str(error.value)


def test_a_trace_of_a_solution_that_is_gone_is_named(tmp_path: Path) -> None:
    dataset = TraceDataset.read(copied(tmp_path))
    path = dataset.add_trace(Trace.model_validate(TRACE))
    assert [trace.solution for trace in dataset.traces(RMS)] == ["rmsnorm_triton"]
    changed(path, _set("solution", to="none"))
    with pytest.raises(ProblemError, match="line 1: solution: there is no Solution none"):
        dataset.traces(RMS)


def test_a_solution_stands_where_the_original_looks_for_it(tmp_path: Path) -> None:
    root = copied(tmp_path)
    dataset = TraceDataset.read(root)
    new = dataset.solutions["rmsnorm_triton"].model_copy(update={"name": "again", "author": "me"})
    assert dataset.add_solution(new) == root / "solutions" / "me" / "norm" / RMS / "again.json"
    assert TraceDataset.read(root).solutions["again"] == new


def test_a_definitions_fastest_solution_is_the_one_with_the_best_traces(tmp_path: Path) -> None:
    root = copied(tmp_path)
    assert find_solution(RMS, "triton", root).solution.name == "rmsnorm_triton"
    dataset = TraceDataset.read(root)
    dataset.add_solution(dataset.solutions["rmsnorm_triton"].model_copy(update={"name": "z_faster"}))
    for name, speedup in (("rmsnorm_triton", 1.5), ("z_faster", 2.0), ("z_faster", 1.25)):
        performance = {"latency_ms": 1.0, "reference_latency_ms": speedup, "speedup_factor": speedup}
        evaluation = {**TRACE["evaluation"], "status": "PASSED", "correctness": {}, "performance": performance}
        dataset.add_trace(Trace.model_validate({**TRACE, "solution": name, "evaluation": evaluation}))
    assert find_solution(RMS, "triton", root).solution.name == "z_faster"


def test_a_solution_outside_of_the_dataset_is_not_traced(tmp_path: Path) -> None:
    root = copied(tmp_path)
    inside = root / "solutions" / "norm" / RMS / "rmsnorm_triton.json"
    assert find_solution(str(inside), "triton", root).problem == RMS
    outside = tmp_path / "mine.json"
    outside.write_text(inside.read_text().replace('"rmsnorm_triton"', '"mine"'))
    with pytest.raises(KernelError, match="put the file into its solutions/"):
        find_solution(str(outside), "triton", root)
