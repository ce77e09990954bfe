from __future__ import annotations

import pytest
from kernelwright.core import Budget, Problem, ProblemError

SOURCE = """
batch, height = 4, 8
shape = (3, 3)
WORKLOADS = {"cpu": {"batch": 1}}
class Model: ...
def get_inputs(): ...
def get_init_inputs(): ...
"""


def problem() -> Problem:
    return Problem(id="level1/1_1", name="1_P", source=SOURCE)


def test_workloads_set_sizes() -> None:
    assert problem().at("cpu").sizes == {"batch": 1}
    assert problem().at("default").sizes == {}
    assert problem().at("batch=2,shape=(1, 2), height=3").sizes == {"batch": 2, "shape": (1, 2), "height": 3}


@pytest.mark.parametrize(
    ("workload", "says"),
    [("gpu", "no workload 'gpu'; it has default, cpu"), ("width=3", "no constant width"), ("batch=", "is no size")],
)
def test_unknown_workloads_are_refused(workload: str, says: str) -> None:
    with pytest.raises(ProblemError, match=says):
        problem().at(workload)


@pytest.mark.parametrize("missing", ["class Model: ...", "def get_inputs(): ...", "def get_init_inputs(): ..."])
def test_an_incomplete_problem_is_refused(missing: str) -> None:
    with pytest.raises(ProblemError, match="lacks"):
        Problem(id="x", name="x", source=SOURCE.replace(missing, ""))


def test_a_budget_says_which_limit_is_reached() -> None:
    budget = Budget(trials=10, seconds=60)
    assert budget.exhausted(Budget(trials=9, seconds=59)) is None
    assert budget.exhausted(Budget(trials=10, seconds=1)) == "budget of 10 trials used up"
    assert budget.exhausted(Budget(seconds=60)) == "budget of 60 seconds used up"


@pytest.mark.parametrize("workloads", ['{"cpu": 3}', "[1]", '{"cpu": dict(batch=1)}'])
def test_workloads_of_another_form_are_refused(workloads: str) -> None:
    source = SOURCE.replace('{"cpu": {"batch": 1}}', workloads)
    with pytest.raises(ProblemError, match="WORKLOADS must be"):
        Problem(id="x", name="x", source=source).at("cpu")
