"""The tools that a model calls: what they answer to good and to bad arguments, and what is noted of each call."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from kernelwright.agent.program.answers import fields
from kernelwright.agent.program.toolbox import CALLS, Toolbox, ToolFailedError
from kernelwright.core import DeviceError, Status

from .stand import START, OneExample, Stand, source, stand


@pytest.fixture
def here(tmp_path: Path) -> Stand:
    return stand(tmp_path)


def toolbox(here: Stand, retriever: OneExample | None = None) -> dict[str, Any]:
    """The tools by name, as DSPy calls them."""
    box = Toolbox(here.context, retriever, here.heard.calls.append)
    return box.answering_all({tool.name: tool for tool in box.tools() if tool.name})


def fielded(text: str) -> dict[str, Any]:
    """The fields of an answer, with numbers and configs parsed."""
    values = ("config", "calls_left")
    return {name: json.loads(value) if name in values else value for name, value in fields(text).items()}


def answer(tools: dict[str, Any], name: str, /, **arguments: Any) -> dict[str, Any]:
    text = tools[name](**arguments)
    assert len(text) < 2500
    found = fielded(text)
    assert found["next"]
    return found


def test_a_correct_kernel_is_evaluated(here: Stand) -> None:
    found = answer(toolbox(here), "evaluate", kernel=f"```python\n{source(5.0)}```")
    assert found["result"].startswith("correct: 5 ms against the reference's 10 ms: speedup 2.000x")
    assert found["against_the_kernel_you_were_given"] == "4.000 times as fast"
    assert found["next"] == "submit it, or tune its parameters first"
    assert here.lane.tried[0].latency_ms == 5.0
    (call,) = here.lane.tool_calls
    assert (call.name, call.ok, call.trials) == ("evaluate", True, 1)
    assert call.arguments == {"kernel": f"```python\n{source(5.0)}```"}
    assert fielded(call.result) == found
    assert call.seconds >= 0
    assert here.heard.calls == [call]


def test_a_config_is_evaluated_and_a_slower_kernel_is_reported_as_such(here: Stand) -> None:
    tools = toolbox(here)
    assert answer(tools, "evaluate", kernel=source(5.0), config={"BLOCK": 16})["result"].startswith("correct: 2.5 ms")
    assert here.lane.tried[0].kernel.config["BLOCK"] == 16
    assert answer(tools, "evaluate", kernel=source(40.0))["next"].startswith("it is no faster: ")


def test_the_same_kernel_costs_no_second_trial(here: Stand) -> None:
    tools = toolbox(here)
    answer(tools, "evaluate", kernel=source(5.0))
    answer(tools, "evaluate", kernel=source(5.0))
    assert [call.trials for call in here.lane.tool_calls] == [1, 0]


@pytest.mark.parametrize("status", [status.value for status in Status if status not in (Status.OK, Status.UNPROVEN)])
def test_a_failure_is_an_observation(here: Stand, status: str) -> None:
    tools = toolbox(here)
    found = answer(tools, "evaluate", kernel=source(status), config={"BLOCK": 16})
    assert found["result"].startswith(f"```\n{status}: as told\nat BLOCK=16\n"), "quoted"
    assert "hint: " in found["result"]
    assert ("explain_error" in found["next"]) == (status in ("compile_error", "runtime_error", "crashed"))
    assert here.lane.tool_calls[0].ok
    explained = answer(tools, "explain_error")
    assert explained["result"].startswith(f"```\n{status}: as told")
    assert "the guide has sections Kernel file" in explained["next"]


def test_there_is_nothing_to_explain_before_a_failure(here: Stand) -> None:
    tools = toolbox(here)
    assert answer(tools, "explain_error")["result"] == "nothing has failed yet"
    answer(tools, "evaluate", kernel=source(5.0))
    assert answer(tools, "explain_error")["next"] == "evaluate a kernel first"


RIGHT = source(5.0)
SPACE = {"BLOCK": [4, 8, 16]}
BAD: list[tuple[str, dict[str, Any], str]] = [
    ("evaluate", {}, "kernel: Missing required argument"),
    ("evaluate", {"kernel": None}, "kernel: Input should be a valid string"),
    ("evaluate", {"kernel": ["import torch"]}, "kernel: Input should be a valid string"),
    ("evaluate", {"kernel": RIGHT, "colour": "red"}, "colour: Unexpected keyword argument"),
    ("evaluate", {"kernel": RIGHT, "config": "BLOCK=16"}, "config: Input should be a valid dictionary"),
    ("evaluate", {"kernel": RIGHT, "config": {"BLOCK": [16]}}, "config.BLOCK"),
    ("evaluate", {"kernel": RIGHT, "config": {"TILE": 16}}, "no constant TILE at module level; it has RESULT, B"),
    ("evaluate", {"kernel": "faster"}, "the reply contains no kernel"),
    ("evaluate", {"kernel": source(5.0).replace("(self, x)", "(self, x, y)")}, "its signature was changed; keep it"),
    ("evaluate", {"kernel": source(5.0) + "x = (\n"}, "line 18: '(' was never closed (x = ()"),
    ("search_examples", {}, "query: Missing required argument"),
    ("search_examples", {"query": "tiles", "k": 99}, "k: Input should be less than or equal to 5"),
    ("search_examples", {"query": "tiles", "k": 0}, "k: Input should be greater than or equal to 1"),
    ("search_examples", {"query": "tiles", "k": "many"}, "k: Input should be a valid integer"),
    ("tune", {"kernel": RIGHT}, "space: Missing required argument"),
    ("tune", {"kernel": RIGHT, "space": {}}, "the space is empty; name constants and values: it has RESULT, BLO"),
    ("tune", {"kernel": RIGHT, "space": [4, 8]}, "space: Input should be a valid dictionary"),
    ("tune", {"kernel": RIGHT, "space": {"BLOCK": 8}}, "space.BLOCK: Input should be a valid list"),
    ("tune", {"kernel": RIGHT, "space": {"BLOCK": []}}, "parameter BLOCK has no values; give at least one"),
    ("tune", {"kernel": RIGHT, "space": {"BLOCK": [8, 8]}}, "parameter BLOCK names a value twice"),
    (
        "tune",
        {"kernel": source(5.0), "space": {"TILE": [8]}},
        "the kernel has no constant TILE at module level; it has",
    ),
    ("tune", {"kernel": RIGHT, "space": SPACE, "tuner": "magic"}, "tuner: Input should be 'portfolio', 'grid'"),
    (
        "tune",
        {"kernel": source(5.0), "space": SPACE, "trials": 0},
        "trials: Input should be greater than or equal to 1",
    ),
    (
        "tune",
        {"kernel": source(5.0), "space": SPACE, "trials": 999},
        "trials: Input should be less than or equal to 200",
    ),
    (
        "tune",
        {"kernel": source(5.0), "space": SPACE, "constraints": ["BLOCK <<"]},
        "constraint 'BLOCK <<' is not an expressi",
    ),
    (
        "tune",
        {"kernel": source(5.0), "space": SPACE, "constraints": ["open(BLOCK)"]},
        "constraint 'open(BLOCK)': Call is",
    ),
    (
        "tune",
        {"kernel": source(5.0), "space": SPACE, "constraints": ["TILE < 4"]},
        "constraint 'TILE < 4' uses TILE; the",
    ),
    ("tune", {"kernel": RIGHT, "space": SPACE, "constraints": ["BLOCK < 1"]}, "no config satisfies 'BLOCK < 1'"),
    (
        "tune",
        {"kernel": source(5.0), "space": SPACE, "constraints": "BLOCK > 1"},
        "constraints: Input should be a valid li",
    ),
    (
        "tune",
        {"kernel": source("wrong_value"), "space": SPACE, "tuner": "grid"},
        "no config was correct: 3 wrong_value",
    ),
    ("profile", {"kernel": source(5.0)}, "kernel: Unexpected keyword argument"),
    ("read_guide", {}, "section_title: Missing required argument"),
    (
        "read_guide",
        {"section_title": "Cooking"},
        "no section 'Cooking' in the guide 'tilelang_cpu'; its sections: ",
    ),
    ("frobnicate", {"x": 1}, "there is no tool frobnicate"),
]


@pytest.mark.parametrize(("name", "arguments", "reason"), BAD)
def test_a_mistake_is_reported_and_noted(here: Stand, name: str, arguments: dict[str, Any], reason: str) -> None:
    found = answer(toolbox(here, OneExample()), name, **arguments)
    assert reason in found["error"]
    (call,) = here.lane.tool_calls
    assert (call.name, call.arguments, call.ok) == (name, arguments, False)
    assert here.heard.calls == [call]


def test_a_tool_that_does_not_exist_is_answered_with_those_that_do(here: Stand) -> None:
    found = answer(toolbox(here), "frobnicate", name="x", function="y", self=1)
    assert found["next"] == "use one of evaluate, search_examples, tune, profile, read_guide, explain_error"


def test_parameters_are_tuned(here: Stand) -> None:
    found = answer(toolbox(here), "tune", kernel=source(5.0), space=SPACE, tuner="grid", constraints=["BLOCK > 4"])
    assert found["config"] == {"BLOCK": 16}
    assert found["result"].startswith("best of 2 configs: correct: 2.5 ms against the reference's 10 ms: speedup 4")
    assert found["result"].endswith("2.000 times as fast as the constants it had")
    assert found["next"] == "write these values into the constants and submit"
    (call,) = here.lane.tool_calls
    assert (call.ok, call.trials) == (True, 2)
    assert min(candidate.latency_ms for candidate in here.lane.tried) == 2.5


@pytest.mark.parametrize("tuner", ["portfolio", "grid", "hill_climb", "xgboost"])
def test_every_tuner_on_offer_exists(here: Stand, tuner: str) -> None:
    found = answer(toolbox(here), "tune", kernel=source(5.0), space=SPACE, tuner=tuner, trials=3)
    assert found["config"] == {"BLOCK": 16}


def test_examples_are_found_for_the_context(here: Stand) -> None:
    examples = OneExample()
    found = answer(toolbox(here, examples), "search_examples", query="a cold cache", technique="loop-order")
    assert "## Larger tiles" in found["result"]
    assert "take over the idea, not the code" in found["next"]
    (query,) = examples.queries
    assert query.text == "loop-order: a cold cache"
    assert (query.language, query.target, query.device) == (START.language, START.target, "test")
    assert (query.exclude, query.source) == (here.context.problem.id, START.source)
    assert query.category == here.context.analysis.category


def test_without_examples_the_model_goes_on_without(here: Stand) -> None:
    assert answer(toolbox(here), "search_examples", query="tiles")["next"] == "go on without"


def test_the_profile_is_that_of_the_fastest_kernel_so_far(here: Stand) -> None:
    tools = toolbox(here)
    assert "20 ms against" in answer(tools, "profile")["result"]
    answer(tools, "evaluate", kernel=source(5.0))
    answer(tools, "evaluate", kernel=source(8.0))
    found = answer(tools, "profile")
    assert "correct: 5 ms against" in found["result"]
    assert "50.00 times the floor" in found["result"]
    assert found["device"].startswith("test: 2 cores")


def test_a_section_of_the_guide_is_read_by_a_title_near_enough(here: Stand) -> None:
    found = answer(toolbox(here), "read_guide", section_title="matrix product")
    assert found["result"].startswith("## Matrix products")


def test_a_limit_that_is_reached_leaves_nothing_but_submitting(here: Stand) -> None:
    here.late.append("time limit of 60 s reached")
    found = answer(toolbox(here), "evaluate", kernel=source(5.0))
    assert found == {"error": "time limit of 60 s reached", "next": "submit the best kernel now"}
    assert here.lane.tried == []


def test_calls_are_counted_down_and_end(here: Stand) -> None:
    tools = toolbox(here)
    answers = [answer(tools, "profile") for _ in range(CALLS)]
    assert not any("error" in answer for answer in answers)
    left = [answer.get("calls_left") for answer in answers]
    assert left == [None] * (CALLS - 4) + [3, 2, 1, None]
    # Whatever the model still calls, mistakes count too.
    found = answer(tools, "nothing")
    assert found == {"error": f"all {CALLS} tool calls are used up", "next": "submit the best kernel now"}
    assert answer(tools, "evaluate", kernel=source(5.0)) == found
    assert here.lane.tried == []


@pytest.mark.parametrize("bug", [ZeroDivisionError("division by zero"), DeviceError("the evaluation server ended")])
def test_a_bug_is_no_answer(here: Stand, bug: Exception) -> None:
    here.evaluator.bug = bug
    with pytest.raises(ToolFailedError) as caught:
        toolbox(here)["evaluate"](kernel=source(5.0))
    assert caught.value.why is bug
    assert not isinstance(caught.value, Exception)  # which DSPy would report to the model


def test_the_model_gets_the_types_and_bounds_of_arguments(here: Stand) -> None:
    told = {tool.name: tool for tool in Toolbox(here.context, None, print).tools()}
    parameters = told["tune"].format_as_litellm_function_call()["function"]["parameters"]
    assert parameters["required"] == ["kernel", "space"]
    assert parameters["properties"]["trials"] == {"type": "integer", "minimum": 1, "maximum": 200, "default": 30}
    assert parameters["properties"]["tuner"]["enum"] == ["portfolio", "grid", "hill_climb", "xgboost"]
    assert told["search_examples"].args["k"]["maximum"] == 5
    assert all(tool.desc for tool in told.values())
