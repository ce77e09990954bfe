"""The proposer of a command's kernels."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from kernelwright.agent.rule_proposer import RuleProposer
from kernelwright.api.jobs import Job
from kernelwright.api.options.optimize import RunOptions
from kernelwright.api.proposers import Proposers
from kernelwright.core import Kernel
from kernelwright.core.events import ignore
from kernelwright.corpus import find_kernel, find_problem


@pytest.mark.parametrize(("device", "ahead"), [("cuda", 1), ("cpu", 0)])
def test_rules_are_applied_while_the_servers_of_a_gpu_start(
    device: str, ahead: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared: list[Kernel] = []
    monkeypatch.setattr(RuleProposer, "prepare", lambda self, kernel: prepared.append(kernel))
    kernel = find_kernel("1_36", "triton").read()
    job = Job(kernel, find_problem("1_36").read(), device, "level1/1_36")
    proposers = Proposers(RunOptions(model="rules"), ignore, cast(Any, None))
    with proposers.open(job, tmp_path) as opened:
        assert isinstance(opened.proposer, RuleProposer)
    assert prepared == [kernel] * ahead
