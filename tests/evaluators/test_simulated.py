"""The simulator against loops whose times are known, and as an evaluator."""

from __future__ import annotations

import pytest
from kernelwright.core import Config, DeviceError, Status
from kernelwright.evaluators.loop_simulator import SimulatedLoop, SimulatedStep, Wait, simulate
from kernelwright.evaluators.simulated import SimulatedEvaluator

from ..fakes import PROBLEM, kernel

LIMITS = {"copy": 1, "tensor": 1}
LOAD = SimulatedStep("LOAD", 0, 5, {"copy": (1, 1)})
DOT = SimulatedStep("DOT", 0, 3, {"tensor": (1, 1, 1)})
READS = (Wait("LOAD", "DOT", 5, 0, True),)


def at(step: SimulatedStep, stage: int, versions: int = 1) -> SimulatedStep:
    return SimulatedStep(step.name, stage, step.latency, step.uses, versions)


def test_without_overlap_an_iteration_waits_for_the_one_before() -> None:
    run = simulate(SimulatedLoop((LOAD, DOT), READS, LIMITS, 10))
    # LOAD 0..5, DOT 5..8 reads until 8, then the next LOAD may overwrite.
    assert (run.interval, run.cycles) == (8, 80)
    assert run.starts["LOAD", 1] == 8


def test_a_second_version_hides_the_load() -> None:
    run = simulate(SimulatedLoop((at(LOAD, 0, 2), at(DOT, 1)), READS, LIMITS, 100))
    assert run.interval == 4 and not run.wrong  # by turns 3 and 5: a LOAD waits for the DOT of two iterations before
    deeper = simulate(SimulatedLoop((at(DOT, 2), at(LOAD, 0, 3)), READS, LIMITS, 100))
    assert deeper.interval == 3
    assert deeper.cycles < run.cycles


def test_issue_is_in_order() -> None:
    late = simulate(SimulatedLoop((at(DOT, 1), at(LOAD, 0, 2)), READS, LIMITS, 100))
    early = simulate(SimulatedLoop((at(LOAD, 0, 2), at(DOT, 1)), READS, LIMITS, 100))
    assert (late.interval, early.interval) == (5, 4)
    assert late.starts["LOAD", 1] == late.starts["DOT", 0]  # it may not start before the DOT that stands before it


def test_a_resource_takes_one_at_a_time() -> None:
    steps = tuple(SimulatedStep(f"C{i}", 0, 2, {"copy": (1, 1)}) for i in range(3))
    assert simulate(SimulatedLoop(steps, (), LIMITS, 20)).interval == 6
    assert simulate(SimulatedLoop(steps, (), {"copy": 3}, 20)).interval == 2


@pytest.mark.parametrize(
    ("steps", "waits", "says"),
    [
        ((DOT, LOAD), READS, "DOT runs before the LOAD that it waits for"),
        ((LOAD, at(DOT, 1)), READS, "LOAD overwrites what DOT still has to read"),
        ((at(DOT, 1), LOAD), (Wait("LOAD", "DOT", 5, 1, True),), "LOAD overwrites what DOT still has to read"),
    ],
)
def test_bodies_that_compute_something_else(
    steps: tuple[SimulatedStep, ...], waits: tuple[Wait, ...], says: str
) -> None:
    assert simulate(SimulatedLoop(steps, waits, LIMITS, 10)).wrong == says


def test_a_value_that_goes_round_has_one_version() -> None:
    run = simulate(SimulatedLoop((LOAD, DOT), (*READS, Wait("DOT", "DOT", 3, 1, True)), LIMITS, 10))
    assert not run.wrong


def in_role(step: SimulatedStep, role: str, versions: int = 1) -> SimulatedStep:
    return SimulatedStep(step.name, step.stage, step.latency, step.uses, versions, role)


def test_a_role_that_loads_runs_ahead_and_waits_for_a_free_buffer() -> None:
    first, second = (
        simulate(SimulatedLoop((in_role(LOAD, "load", depth), in_role(DOT, "compute")), READS, LIMITS, 100))
        for depth in (1, 2)
    )
    assert (first.interval, second.interval, first.wrong, second.wrong) == (8, 4, "", "")
    assert second.starts["LOAD", 1] == 2  # as soon as the first load has left the copy engine


def test_roles_that_wait_for_each_other_are_wrong() -> None:
    other = SimulatedStep("MORE", 0, 1, {"copy": (1,)}, 1, "load")
    behind = SimulatedStep("LAST", 1, 1, {"tensor": (1,)}, 1, "compute")
    steps = (other, in_role(LOAD, "load"), in_role(DOT, "compute"), behind)
    run = simulate(SimulatedLoop(steps, (*READS, Wait("MORE", "LAST", 1, 0, True)), LIMITS, 10))
    assert run.wrong == "MORE overwrites what LAST still has to read"


def test_it_speaks_the_protocol_and_marks_everything_simulated() -> None:
    def loop_of(config: Config) -> SimulatedLoop | str:
        if config["DEPTH"] == 9:
            return "too deep"
        return SimulatedLoop((LOAD, DOT) if config["DEPTH"] else (DOT, LOAD), READS, LIMITS, int(config["A"]))

    evaluator, candidate = SimulatedEvaluator(loop_of), kernel(1.0, A=10, DEPTH=1)
    configs = [Config({"DEPTH": depth}) for depth in (1, 2, 0, 9)]
    found = list(evaluator.evaluate(PROBLEM, candidate, configs))
    assert [e.status for e in found] == [Status.OK, Status.OK, Status.WRONG_VALUE, Status.COMPILE_ERROR]
    assert all(e.origin.value == "simulated" and e.message.startswith("simulated: ") for e in found)
    assert all(e.environment == {"device": "simulated"} for e in found)
    assert found[1].duplicate_of == {"DEPTH": 1} and found[0].latency_ms == found[1].latency_ms == 80e-6
    again = list(evaluator.evaluate(PROBLEM, candidate, configs[1:2], found[:1]))
    assert again[0].duplicate_of == {"DEPTH": 1}
    assert [e.config for e in evaluator.compare(PROBLEM, candidate, [Config(), configs[0]])] == [{}, {"DEPTH": 1}]
    with pytest.raises(DeviceError, match="use a device"):
        evaluator.profile(PROBLEM)
