"""Conversations with a scripted model, by native tool calls over HTTP and in text: DSPy's agent is the real one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from kernelwright.agent.program.proposer import ModelProposer
from kernelwright.agent.program.signatures import ROUNDS
from kernelwright.agent.program.toolbox import CALLS
from kernelwright.agent.proposer import NoKernelError
from kernelwright.core import DeviceError

from ...openai_server import OpenAIServer, Step, Text, Tools
from ..conversations.telling import submit, use
from .stand import Stand, called, requests, source, textual

Run = Callable[[Sequence[Step]], ModelProposer]
Served = Callable[..., tuple[ModelProposer, OpenAIServer]]
RIGHT = source(5.0)
FENCED = f"Loops swapped.\n\n```python\n{RIGHT}```\n"
FIRST_IDEA = "block and thread configuration"
"""What a kernel is named after that comes without a strategy."""


def test_a_kernel_is_evaluated_tuned_and_submitted(run: Run, here: Stand) -> None:
    steps = [
        use("evaluate", kernel=RIGHT),
        use("tune", kernel=RIGHT, space={"BLOCK": [8, 16]}, tuner="grid"),
        submit(RIGHT.replace("BLOCK = 8", "BLOCK = 16"), "wider  blocks", "Fewer blocks\nare faster."),
    ]
    proposal = run(steps).propose(here.context)
    assert proposal.kernel.source == RIGHT.replace("BLOCK = 8", "BLOCK = 16")
    assert (proposal.strategy, proposal.rationale) == ("wider blocks", "Fewer blocks are faster.")
    assert proposal.category == here.context.analysis.category
    assert called(here) == [("evaluate", True), ("tune", True)]
    assert here.heard.calls == here.lane.tool_calls
    assert here.heard.failures == []


def test_mistakes_with_tools_are_answered_and_noted(run: Run, here: Stand) -> None:
    steps = [
        use("frobnicate", speed="high"),
        use("evaluate", kernel=7),
        Tools([("profile", {}), ("search_examples", {"query": "tiles"}), ("profile", {"k": 1})]),
        submit(RIGHT, "tiles", "Larger."),
    ]
    assert run(steps).propose(here.context).kernel.source == RIGHT
    assert called(here) == [
        ("frobnicate", False),
        ("evaluate", False),
        ("profile", True),
        ("search_examples", True),
        ("profile", False),
    ]
    assert [call.arguments for call in here.lane.tool_calls[:2]] == [{"speed": "high"}, {"kernel": 7}]


def test_tool_results_reaches_the_model(served: Served, here: Stand) -> None:
    proposer, server = served(use("frobnicate"), use("profile"), submit(RIGHT, "s", "r"))
    proposer.propose(here.context)
    said = [message["content"] for message in server.requests[-1].body["messages"] if message["role"] == "tool"]
    assert "there is no tool frobnicate" in said[0]
    assert "times the floor" in said[1]
    offered = {tool["function"]["name"]: tool["function"] for tool in server.requests[0].body["tools"]}
    assert set(offered) == {
        "evaluate", "search_examples", "tune", "profile", "read_guide", "explain_error", "submit"
    }  # fmt: skip
    assert offered["submit"]["parameters"]["properties"]["strategy"]["description"] == "the change in one to four words"


def test_in_text_the_conversation_is_text(tmp_path: Path, here: Stand) -> None:
    models = textual(tmp_path, [use("profile"), submit(RIGHT, "s", "r")])
    ModelProposer(models, here.heard).propose(here.context)
    first, second = requests(models)
    assert first["tools"] == second["tools"] == []
    assert [message["role"] for message in second["messages"]] == ["user", "assistant", "user", "user"]
    assert all("tool_calls" not in message for message in second["messages"])
    assert '"name": "profile"' in second["messages"][1]["text"]
    assert "times the floor" in second["messages"][2]["text"]


@pytest.mark.parametrize("arguments", ["faster!", "[1, 2]", "7", '{"kernel": '])
def test_arguments_that_are_no_json_object_end_the_attempt_or_are_fixed(
    served: Served, here: Stand, arguments: str
) -> None:
    proposer, server = served(Tools([("evaluate", arguments)]), submit(RIGHT, "s", "r"))
    assert proposer.propose(here.context).kernel.source == RIGHT
    assert server.errors == []
    assert not any(ok for _, ok in called(here))


def test_a_submission_that_is_no_json_object_is_sent_back(served: Served, here: Stand) -> None:
    proposer, server = served(Tools([("submit", "[1, 2]")]), submit(RIGHT, "s", "r"))
    assert proposer.propose(here.context).kernel.source == RIGHT
    said = [message["content"] for message in server.requests[-1].body["messages"] if message["role"] == "tool"]
    assert "Missing required final output field(s): kernel, strategy, rationale" in said[0]


def test_in_text_calls_that_are_no_json_end_the_attempt(tmp_path: Path, here: Stand) -> None:
    broken = Text("[[ ## next_thought ## ]]\nHm.\n\n[[ ## tool_calls ## ]]\nevaluate please")
    proposer = ModelProposer(textual(tmp_path, [broken, submit(RIGHT, "s", "r")]), here.heard)
    assert proposer.propose(here.context).kernel.source == RIGHT


@pytest.mark.parametrize(
    ("text", "strategy", "rationale"),
    [
        (FENCED, FIRST_IDEA, ""),
        (RIGHT, FIRST_IDEA, ""),
        (f"[[ ## kernel ## ]]\n```python\n{RIGHT}```\n\n[[ ## completed ## ]]", FIRST_IDEA, ""),
        (
            f"[[ ## strategy ## ]]\nswap the\nloops\n\n[[ ## rationale ## ]]\nRows\nare cached.\n\n```py\n{RIGHT}```",
            "swap the loops",
            "Rows are cached.",
        ),
        (
            f"[[ ## kernel ## ]]\n{RIGHT}\n[[ ## strategy ## ]]\nswap\n[[ ## rationale ## ]]\nIt is.\n",
            "swap",
            "It is.",
        ),
        (f"[[ ## next_thought ## ]]\nSwap them.\n\n{FENCED}", FIRST_IDEA, ""),
    ],
)
def test_a_bare_kernel_is_submitted(run: Run, here: Stand, text: str, strategy: str, rationale: str) -> None:
    proposal = run([Text(text)]).propose(here.context)
    assert proposal.kernel.source == RIGHT
    assert (proposal.strategy, proposal.rationale) == (strategy, rationale)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("It is as fast as it can be.", "the reply contains no kernel; send the whole file"),
        (f"```python\n{RIGHT}```\nor\n```python\n{source(4.0)}```", "the reply contains 2 kernels"),
        (f"```python\n{RIGHT[:-10]}", "the reply ends in the middle of its code"),
    ],
)
def test_a_reply_without_a_kernel_is_asked_for_once_more_then_reported(
    run: Run, here: Stand, text: str, reason: str
) -> None:
    with pytest.raises(NoKernelError) as caught:
        run([Text(text), Text(text)]).propose(here.context)
    assert str(caught.value).startswith(reason)


def test_a_kernel_after_prose_is_taken(run: Run, here: Stand) -> None:
    assert run([Text("Let me think."), submit(RIGHT, "s", "r")]).propose(here.context).kernel.source == RIGHT


@pytest.mark.parametrize(
    ("kernel", "reason"),
    [
        ("", "the reply contains no kernel"),
        ("see above", "the reply contains no kernel"),
        (RIGHT.replace("tilelang.cpu.language", "triton.language"), "the reply is a triton kernel for cuda"),
        (RIGHT.replace("(x, self.weight", "(x, self.weight)"), "the reply is not valid Python: line 17: unmatched ')'"),
    ],
)
def test_a_submitted_kernel_that_is_none_is_reported(run: Run, here: Stand, kernel: str, reason: str) -> None:
    with pytest.raises(NoKernelError) as caught:
        run([use("submit", kernel=kernel, strategy="s", rationale="r")]).propose(here.context)
    assert reason in str(caught.value)


def test_a_submission_that_lacks_a_field_is_sent_back(run: Run, here: Stand) -> None:
    steps = [Tools([("submit", {"kernel": RIGHT})]), submit(RIGHT, "s", "r")]
    assert run(steps).propose(here.context).strategy == "s"


def test_a_model_that_never_submits_is_made_to(run: Run, here: Stand) -> None:
    steps = [*[use("profile")] * ROUNDS, submit(RIGHT, "s", "r")]
    assert run(steps).propose(here.context).kernel.source == RIGHT
    assert called(here) == [("profile", True)] * CALLS + [("profile", False)] * (ROUNDS - CALLS)


def test_made_to_submit_a_native_model_may_call_nothing_else(served: Served, here: Stand) -> None:
    proposer, server = served(Text("Let me think."), submit(RIGHT, "s", "r"))
    proposer.propose(here.context)
    assert "tool_choice" not in server.requests[0].body
    assert server.requests[1].body["tool_choice"] == {"type": "function", "function": {"name": "submit"}}


def test_a_model_that_does_not_submit_even_then_has_no_kernel(tmp_path: Path, here: Stand) -> None:
    proposer = ModelProposer(textual(tmp_path, [use("profile")] * (ROUNDS + 1)), here.heard)
    with pytest.raises(NoKernelError, match=r"^nothing was submitted; call submit with the kernel$"):
        proposer.propose(here.context)


@pytest.mark.parametrize("bug", [ValueError("ours"), UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogate")])
def test_a_bug_on_the_way_to_the_model_is_no_missing_submission(
    tmp_path: Path, here: Stand, bug: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise bug

    monkeypatch.setattr("kernelwright.agent.program.adapter.KernelAdapter.format", broken)
    with pytest.raises(type(bug)) as caught:
        ModelProposer(textual(tmp_path, [submit(RIGHT, "s", "r")]), here.heard).propose(here.context)
    assert caught.value is bug


@pytest.mark.parametrize("bug", [ZeroDivisionError("division by zero"), DeviceError("the evaluation server ended")])
def test_a_bug_in_a_tool_ends_the_run_and_is_not_reported_to_the_model(run: Run, here: Stand, bug: Exception) -> None:
    here.evaluator.bug = bug
    with pytest.raises(type(bug)) as caught:
        run([use("evaluate", kernel=RIGHT)]).propose(here.context)
    assert caught.value is bug


def test_a_limit_reached_in_the_middle_is_reported_and_the_kernel_still_taken(run: Run, here: Stand) -> None:
    here.late.append("time limit of 60 s reached")
    proposal = run([use("evaluate", kernel=RIGHT), submit(RIGHT, "s", "r")]).propose(here.context)
    assert proposal.kernel.source == RIGHT
    assert "time limit of 60 s reached" in here.lane.tool_calls[0].result
