"""What comes of kernels that fail and of models that fail."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from kernelwright.agent.models.choice import parse
from kernelwright.agent.models.models import Models, ModelSettings
from kernelwright.agent.models.transcript import Transcript
from kernelwright.agent.program.proposer import ModelProposer
from kernelwright.agent.proposer import RunEndedError
from kernelwright.agent.turn import Attempt
from kernelwright.core import Budget, Config, Proposal, PythonKernel, ReplyPendingError

from ...fakes import evaluation
from ...openai_server import Fail, Malformed, OpenAIServer, Step
from ..conversations.telling import submit, use
from .stand import Stand, called, requests, source, stand, textual

Served = Callable[..., tuple[ModelProposer, OpenAIServer]]
RIGHT = source(5.0)
TOO_LONG = Fail(400, "This model's maximum context length is 8192 tokens.", code="context_length_exceeded")


def test_a_repair_gets_what_failed(tmp_path: Path, here: Stand) -> None:
    failed = PythonKernel.parse(source("wrong_value"))
    verdict = evaluation(failed, Config(), "wrong_value")
    attempts = [
        Attempt(None, (), "the reply contains no kernel"),
        Attempt(Proposal(failed, "s", "compute", "r"), (verdict,), "wrong_value: as told"),
    ]
    models = textual(tmp_path, [submit(RIGHT, "mend", "The mask.")])
    assert ModelProposer(models, here.heard).propose(here.context, attempts).strategy == "mend"
    (sent,) = requests(models)
    assert "A rewrite of a tilelang kernel failed" in sent["system"]
    asked = sent["messages"][0]["text"]
    assert failed.source in asked
    assert "wrong_value: as told\nhint: the arithmetic" in asked
    assert "attempt 1 of this turn had failed too: the reply contains no kernel" in asked
    assert here.context.analysis.suggestions[0] in asked


def test_a_repair_follows_the_suggestion_of_its_lane(tmp_path: Path) -> None:
    here = stand(tmp_path, variant=1, index=1)
    models = textual(tmp_path, [submit(RIGHT, "s", "r")] * 2)
    proposer = ModelProposer(models, here.heard)
    proposer.propose(here.context)
    proposer.propose(here.context, [Attempt(None, (), "the reply contains no kernel")])
    second = here.context.analysis.suggestions[1]
    assert all(f"[[ ## suggestion ## ]]\n{second}" in sent["messages"][0]["text"] for sent in requests(models))
    assert "there was no kernel in the reply" in requests(models)[1]["messages"][0]["text"]


def test_a_prompt_that_is_too_long_is_sent_again_with_less(served: Served, here: Stand) -> None:
    # DSPy's agent asks once more by itself before it gives up.
    steps = [use("profile"), TOO_LONG, TOO_LONG, TOO_LONG, TOO_LONG, submit(RIGHT, "s", "r")]
    proposer, server = served(*steps)
    assert proposer.propose(here.context).kernel.source == RIGHT
    assert here.heard.failures == ["the prompt was too long: asking again with less in it"] * 2
    sizes = [len(str(request.body["messages"])) for request in server.requests]
    assert sizes[-1] < sizes[0] < sizes[1]
    # A new conversation begins, without the long part.
    assert [message["role"] for message in server.requests[-1].body["messages"]] == ["system", "user"]
    assert "## Larger tiles" in str(server.requests[0].body)
    assert "## Larger tiles" not in str(server.requests[-1].body)


def test_a_prompt_that_stays_too_long_ends_the_run(served: Served, here: Stand) -> None:
    proposer, server = served(*[TOO_LONG] * 6)
    with pytest.raises(RunEndedError, match="the prompt is too long for openai/gpt-4o even without examples") as caught:
        proposer.propose(here.context)
    assert "\n" not in str(caught.value)
    assert server.unused() == []


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (Fail(500, "oops"), "the server of openai/gpt-4o failed; check `api_base` and the network, then `resume`"),
        (Fail(429, "slow down"), "openai/gpt-4o allows no more requests for now; wait, then go on with `resume`"),
        (Fail(401, "no", code="invalid_api_key"), "the key for openai/gpt-4o was refused"),
        (Malformed(b"<html>"), "openai/gpt-4o"),
    ],
)
def test_a_model_that_fails_in_the_middle_ends_the_run(served: Served, here: Stand, step: Step, reason: str) -> None:
    proposer, _ = served(use("evaluate", kernel=RIGHT), step)
    with pytest.raises(RunEndedError) as caught:
        proposer.propose(here.context)
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)
    assert here.lane.tried[0].latency_ms == 5.0


def test_a_budget_spent_in_the_middle_ends_the_run(served: Served, here: Stand) -> None:
    proposer, server = served(use("evaluate", kernel=RIGHT), budget=Budget(tokens=100))
    with pytest.raises(RunEndedError, match=r"100 tokens"):
        proposer.propose(here.context)
    assert len(server.requests) == 1
    assert called(here) == [("evaluate", True)]


@pytest.mark.parametrize("part", ["analyse", "propose"])
def test_a_reply_that_a_person_has_yet_to_write_is_waited_for(tmp_path: Path, here: Stand, part: str) -> None:
    settings = ModelSettings(parse(f"files:{tmp_path / 'chat'}"), wait=False)
    proposer = ModelProposer(Models(settings, Transcript(tmp_path / "transcript.jsonl"), {}), here.heard)
    with pytest.raises(ReplyPendingError, match=r"0001\.prompt\.md has no reply yet") as caught:
        getattr(proposer, part)(here.context)
    assert "\n" not in str(caught.value)


def test_replies_that_are_used_up_end_the_run(tmp_path: Path, here: Stand) -> None:
    proposer = ModelProposer(textual(tmp_path, [use("profile")]), here.heard)
    with pytest.raises(RunEndedError, match="contains no further reply"):
        proposer.propose(here.context)
