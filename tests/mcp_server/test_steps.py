"""The events of a job as steps."""

from __future__ import annotations

import io
from typing import Any, BinaryIO, cast

from kernelwright.core import Budget, Config
from kernelwright.core.events import FinalsStarted, SearchStarted, Warned, progress, working
from kernelwright.mcp_server import messages
from kernelwright.mcp_server.messages import JobStep, Wire
from kernelwright.mcp_server.worker import Steps
from kernelwright.tuners.search import Progress

from ..agent.made_up import listed, run
from ..fakes import kernel
from ..runtime.tunings import OTHER, SPACE, timed


class Sent(io.BytesIO):
    """The steps that were sent."""

    def steps(self) -> list[JobStep]:
        return [step for line in self.getvalue().splitlines() if isinstance(step := messages.read(line), JobStep)]


def wire() -> tuple[Sent, Wire]:
    sent = Sent()
    return sent, Wire(cast(BinaryIO, sent))


def test_steps_of_a_list() -> None:
    sent, line = wire()
    emit = Steps(line).emit
    emit(Warned("careful"))
    with working(emit, "looking"), progress(emit, "measuring", 2) as advance:
        advance("one")
        advance("two")
    assert [(step.done, step.total, step.text) for step in sent.steps()] == [
        (0, None, "warning: careful"),
        (0, None, "looking"),
        (0, 2, "measuring"),
        (1, 2, "measuring 1/2: one"),
        (2, 2, "measuring 2/2: two"),
    ]


def test_steps_of_a_search() -> None:
    sent, line = wire()
    emit, found, trial = Steps(line).emit, Progress(), timed(OTHER, 2.0)
    emit(SearchStarted("k.py", "given", SPACE, 2, 0, (), Budget(trials=5)))
    found.add(trial)
    emit(found.event(trial))
    emit(FinalsStarted((Config(), OTHER)))
    assert [(step.done, step.total, step.text) for step in sent.steps()] == [
        (0, 3, "tuning: 2 configs, at most 2 trials"),
        (1, 3, "trial 1: ok, 2 ms; best 2 ms"),
        (1, 3, "measuring 1 finalists and the unchanged kernel, interleaved"),
    ]


def test_steps_of_a_run(tmp_path: Any) -> None:
    sent, line = wire()
    run(tmp_path, kernel(20.0), listed(kernel(8.0), kernel("wrong_value")), emit=Steps(line).emit)
    texts = [step.text for step in sent.steps()]
    assert "start: ok, 20 ms; the roofline's floor is 0.1 ms" in texts
    assert "turn 1: step-1.0 (compute): the fastest so far, 1.250x [1.250, 1.250] against the reference" in texts
    assert any(text.endswith("nothing faster") for text in texts)
    assert [step.done for step in sent.steps()] == sorted(step.done for step in sent.steps())
