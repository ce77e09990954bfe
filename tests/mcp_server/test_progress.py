"""Progress notifications always grow, and a long step shows signs of life."""

from __future__ import annotations

import itertools

import anyio
import pytest
from kernelwright.mcp_server import workshop as progress
from kernelwright.mcp_server.messages import JobStep
from kernelwright.mcp_server.workshop import ProgressReporter


def test_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "BEAT_S", 0.02)
    reports: list[tuple[float, float | None, str]] = []

    async def report(done: float, total: float | None, text: str) -> None:
        reports.append((done, total, text))

    async def work() -> None:
        reporter = ProgressReporter(report)
        async with anyio.create_task_group() as group:
            group.start_soon(reporter.beat)
            for done in range(3):
                await reporter.tell(JobStep(done=done, total=3, text=f"step {done}"))
                await reporter.tell(JobStep(done=done, total=3, text="more"))
            await anyio.sleep(0.1)
            group.cancel_scope.cancel()

    anyio.run(work)
    values = [done for done, _, _ in reports]
    assert all(a < b for a, b in itertools.pairwise(values))
    assert values[-1] < 3
    assert [text for _, _, text in reports[:6]] == ["step 0", "more", "step 1", "more", "step 2", "more"]
    assert reports[6:] and all(text == "more (0 s)" for _, _, text in reports[6:])
