"""`ok` means proven: what was timed and not replayed has a status of its own, unless the user accepts it."""

from __future__ import annotations

from typing import Any

import pytest
from kernelwright.core import Config, Evaluation, EvaluationSummary, Metrics, Replay, Status
from kernelwright.core.workload_rows import merged
from pydantic import ValidationError

from ..fakes import evaluation, kernel

WHY = "reads values of a tensor into Python"
ALONE = Replay(replayed=False, reason=WHY)


def judged(replay: Replay | None, **more: Any) -> Evaluation:
    timed = evaluation(kernel(2.0), Config(), 2.0)
    return Evaluation(**{**dict(timed), "replay": replay, **more})


def test_what_was_not_replayed_is_unproven_and_keeps_its_times() -> None:
    found = judged(ALONE, message="checked twice")
    assert (found.status, found.ok, found.correct) == (Status.UNPROVEN, False, True)
    assert found.message == f"not replayed: {WHY}; checked twice"
    assert found.latency_ms == 2.0 and found.speedup is not None
    assert found.metrics().to_json()["status"] == found.summary().to_json()["status"] == "unproven"
    assert Evaluation.model_validate_json(found.model_dump_json()) == found


@pytest.mark.parametrize("replay", [None, Replay(replayed=True, steps=("launch scale",))])
def test_what_was_replayed_and_what_a_search_tries_is_ok(replay: Replay | None) -> None:
    assert judged(replay).status is Status.OK


def test_the_user_may_accept_it() -> None:
    found = judged(ALONE, message="checked twice").accepted()
    assert (found.status, found.message) == (Status.OK, "checked twice")
    assert found.replay is not None and found.replay.accepted
    assert Evaluation.model_validate_json(found.model_dump_json()) == found
    assert judged(None).accepted() == judged(None)


def test_older_records_say_ok_of_it_and_are_read_as_unproven() -> None:
    record = judged(ALONE).model_dump(mode="json") | {"status": "ok", "message": ""}
    read = Evaluation.model_validate(record)
    assert (read.status, read.message) == (Status.UNPROVEN, f"not replayed: {WHY}")
    for form in (Metrics, EvaluationSummary):
        summary = {"status": "ok", "speedup": 16.2, "replay": {"replayed": False, "reason": WHY}}
        assert form.model_validate(summary).status is Status.UNPROVEN


def test_it_is_one_of_several_workloads() -> None:
    replayed = judged(Replay(replayed=True))
    found = merged({"few": replayed, "many": judged(ALONE)})
    assert (found.status, found.message) == (Status.UNPROVEN, f"at many: not replayed: {WHY}")
    assert found.latency_ms == pytest.approx(2.0)
    wrong = Evaluation(status=Status.WRONG_VALUE, kernel_digest="d", message="off by 1")
    assert merged({"few": judged(ALONE), "many": wrong}).status is Status.WRONG_VALUE
    assert merged({"few": replayed, "many": judged(ALONE).accepted()}).status is Status.OK


@pytest.mark.parametrize("replay", [None, Replay(replayed=True), ALONE.model_copy(update={"accepted": True})])
def test_a_kernel_is_unproven_for_a_reason(replay: Replay | None) -> None:
    with pytest.raises(ValidationError, match="unproven needs a replay that failed"):
        judged(replay, status=Status.UNPROVEN, message="not replayed")
