"""Progress notifications of a call: each step of its job, and a sign of life where a step takes long."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio

from .messages import Step

BEAT_S = 10.0
"""Clients give a silent call up, by default after a minute."""

Report = Callable[[float, float | None, str], Awaitable[None]]
"""Takes the progress, its total where known, and a line."""


class Progress:
    """Tells a client how far a call is; what it is told always grows, as the protocol demands."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._step = Step(done=0, total=None, text="")
        self._lines = 0
        """Told since the last step was over."""
        self._since = anyio.current_time()

    async def tell(self, step: Step) -> None:
        """A step of the job is over, or says what it does."""
        if step.done > self._step.done:
            self._lines = 0
        self._step, self._since = step, anyio.current_time()
        await self._send(step.text)

    async def beat(self) -> None:
        """Repeat the latest line for ever, with the seconds since then."""
        while True:
            await anyio.sleep(BEAT_S)
            if self._step.text:
                await self._send(f"{self._step.text} ({anyio.current_time() - self._since:.0f} s)")

    async def _send(self, text: str) -> None:
        within = self._lines / (self._lines + 1)  # approaches the next step, which it never reaches
        self._lines += 1
        await self._report(self._step.done + within, self._step.total, text)
