"""The proposer of a command's kernels."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from kernelwright.agent.bottleneck import analyse
from kernelwright.agent.proposer import TurnContext
from kernelwright.agent.rule_proposer import RuleProposer
from kernelwright.agent.turn import Candidate
from kernelwright.core import Config, Kernel
from kernelwright.core.events import ignore
from kernelwright.corpus import find_kernel, find_problem
from kernelwright.runtime.jobs import Job
from kernelwright.runtime.options.groups import RunOptions
from kernelwright.runtime.proposers import Proposers, ProposerSettings

from ..fakes import PROFILE, evaluation


@pytest.mark.parametrize(("device", "ahead"), [("cuda", 1), ("cpu", 0)])
def test_rules_are_applied_while_the_servers_of_a_gpu_start(
    device: str, ahead: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared: list[Kernel] = []
    monkeypatch.setattr(RuleProposer, "prepare", lambda self, kernel: prepared.append(kernel))
    kernel = find_kernel("1_36", "triton").read()
    job = Job(kernel, find_problem("1_36").read(), device, "level1/1_36")
    proposers = Proposers(ProposerSettings.of(RunOptions(model="rules")), ignore, cast(Any, None))
    with proposers.open(job, tmp_path) as opened:
        assert isinstance(opened.proposer, RuleProposer)
    assert prepared == [kernel] * ahead


def test_a_model_is_told_which_rules_do_not_fit(tmp_path: Path) -> None:
    (tmp_path / "replies.jsonl").write_text('{"reply": {"text": "no analysis"}}\n')
    kernel, problem = find_kernel("1_36", "triton").read(), find_problem("1_36").read()
    job = Job(kernel, problem, "cpu", "level1/1_36")
    options = RunOptions(model=f"replay:{tmp_path / 'replies.jsonl'}", rag_k=0)
    proposers = Proposers(ProposerSettings.of(options), ignore, cast(Any, None))
    start = evaluation(kernel, Config(), 20.0)
    lane: Any = SimpleNamespace(number=1, name="1.0")
    context = TurnContext(problem, PROFILE, Candidate(kernel, start), analyse(PROFILE, kernel, start), (), lane)
    with proposers.open(job, tmp_path / "transcript.jsonl") as opened:
        opened.proposer.analyse(context)
    (sent,) = [line for line in (tmp_path / "transcript.jsonl").read_text().splitlines() if "exchange" in line]
    assert "built-in rewrite rules that do not fit the kernel to improve" in sent
    assert "no product" in sent
