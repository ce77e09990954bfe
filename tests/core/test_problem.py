from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest
from kernelwright.core import Budget, Problem, ProblemError, Tolerance, TorchProblem
from kernelwright.core.problem import TOLERANCES

SOURCE = """
batch, height = 4, 8
shape = (3, 3)
WORKLOADS = {"cpu": {"batch": 1}}
class Model: ...
def get_inputs(): ...
def get_init_inputs(): ...
"""


def problem() -> TorchProblem:
    return TorchProblem(id="level1/1_1", name="1_P", source=SOURCE)


def test_workloads_set_sizes() -> None:
    assert problem().at("cpu").sizes == {"batch": 1}
    assert problem().at("default").sizes == {}
    assert problem().at("batch=2,shape=(1, 2), height=3").sizes == {"batch": 2, "shape": (1, 2), "height": 3}


@pytest.mark.parametrize(
    ("workload", "says"),
    [("gpu", "no workload 'gpu'; it has default, cpu"), ("width=3", "no constant width"), ("batch=", "is not a size")],
)
def test_unknown_workloads_are_refused(workload: str, says: str) -> None:
    with pytest.raises(ProblemError, match=says):
        problem().at(workload)


@pytest.mark.parametrize("missing", ["class Model: ...", "def get_inputs(): ...", "def get_init_inputs(): ..."])
def test_an_incomplete_problem_is_refused(missing: str) -> None:
    with pytest.raises(ProblemError, match="lacks"):
        TorchProblem(id="x", name="x", source=SOURCE.replace(missing, ""))


def test_a_budget_says_which_limit_is_reached() -> None:
    budget = Budget(trials=10, seconds=60)
    assert budget.exhausted(Budget(trials=9, seconds=59)) is None
    assert budget.exhausted(Budget(trials=10, seconds=1)) == "budget of 10 trials used up"
    assert budget.exhausted(Budget(seconds=60)) == "budget of 60 seconds used up"


@pytest.mark.parametrize("workloads", ['{"cpu": 3}', "[1]", '{"cpu": dict(batch=1)}', "{[]: 1}"])
def test_workloads_of_another_form_are_refused(workloads: str) -> None:
    source = SOURCE.replace('{"cpu": {"batch": 1}}', workloads)
    with pytest.raises(ProblemError, match="WORKLOADS must be"):
        TorchProblem(id="x", name="x", source=source).at("cpu")


def test_a_file_says_which_share_of_a_result_must_match() -> None:
    source = f"DTYPE = 'bfloat16'\nMATCHED = 0.9 if DTYPE == 'float8' else 1\n{SOURCE}"
    made = TorchProblem(id="x", name="x", source=source)
    assert made.tolerances == TOLERANCES == problem().tolerances
    coarse = made.at("DTYPE='float8'")
    assert coarse.tolerances["bfloat16"] == TOLERANCES["bfloat16"]._replace(matched=0.9)
    loose = replace(coarse, tolerances={"bfloat16": Tolerance(1.0, 1.0)})
    assert loose.tolerances == {"bfloat16": Tolerance(1.0, 1.0, 0.9)}
    assert coarse.at("default").tolerances == TOLERANCES


def test_a_share_is_read_as_python_reads_the_file() -> None:
    """The last assignment counts, and constants that are computed; it is not a size."""
    source = f"N = 4\nWIDE = N * 2\nMATCHED = 0.5\nMATCHED = 0.75 if WIDE > 4 else 1.0\n{SOURCE}"
    made = TorchProblem(id="x", name="x", source=source)
    assert made.tolerances["float32"].matched == 0.75
    with pytest.raises(ProblemError, match="no constant MATCHED; it has N, WIDE, batch"):
        made.at("MATCHED=0.5")


@pytest.mark.parametrize("share", ["0", "1.5", "True", "'all'", "len(x)", "max([])", "N > 1", "1 // 0"])
def test_a_share_of_another_form_is_refused(share: str) -> None:
    with pytest.raises(ProblemError, match=rf"MATCHED = {re.escape(share)} is not a share; give a number above 0"):
        TorchProblem(id="x", name="x", source=f"MATCHED = {share}\n{SOURCE}")


def test_digests_are_those_of_records_written_before() -> None:
    """Journals know a reference by the digest of its source, and its sizes by their sorted items."""
    assert problem().digest == hashlib.sha256(SOURCE.encode()).hexdigest()[:16]
    sized = problem().at("height=2,batch=3")
    assert sized.sizes_key == "[('batch', 3), ('height', 2)]"
    assert sized.sizes_digest == hashlib.sha256(sized.sizes_key.encode()).hexdigest()[:16]
    assert sized.digest == problem().digest


def test_integers_are_the_whole_numbers_that_a_problem_names() -> None:
    source = "M = 1024 * 2\nK, N = M // 4, 8\nRATE = 0.5\nFLAG = True\nLATE = make()\nOLD = 3\nOLD = make()\n" + SOURCE
    made = TorchProblem(id="x", name="x", source=source)
    assert made.integers == {"M": 2048, "K": 512, "N": 8, "batch": 4, "height": 8}
    assert made.at("M=16,RATE=0.25").integers == {**made.integers, "M": 16}
    assert made.at("M=0.5").integers.keys() == made.integers.keys() - {"M"}


def test_another_kind_of_problem_has_no_reference_in_torch() -> None:
    """What all problems share needs no PyTorch source."""

    @dataclass(frozen=True)
    class Module(Problem):
        text: str

        digest = "0" * 16
        workloads = {"default": {}}
        integers = {"M": 4}

        def resized(self, workload: str, sizes: Mapping[str, Any]) -> Module:
            return replace(self, workload=workload, sizes=sizes)

    module = Module("mlir/1", "1_Module", "func.func @f")
    assert module.at("M=8").sizes == {"M": 8}
    assert module.tolerances["float32"] == Tolerance(absolute=1e-4, relative=1e-4)
    with pytest.raises(ProblemError, match="no PyTorch reference"):
        TorchProblem.of(module)
