"""Exchanges tensors between a candidate's worker and the reference worker: weights one way, outputs the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...core import Status
from ..reference.client import ReferenceClient
from ..settings import Limits
from ..workers.channel import Message
from ..workers.client import Worker
from .process import CandidateProcess
from .responses import OutputsResponse, RunResponse, WeightsResponse
from .verified import SIDE_EFFECTS, WRITES_WEIGHTS


class ExchangingProcess(CandidateProcess):
    """A worker whose tensors the reference worker opens: as device memory where `share` is given, and as files where
    that cannot be opened."""

    def __init__(self, limits: Limits, new_worker: Callable[[], Worker], share: bool) -> None:
        super().__init__(new_worker, limits)
        self._share = share
        self._share_weights = share

    def compared(
        self,
        reference_client: ReferenceClient,
        serial: int,
        seed: int,
        seconds: float,
        distribution: str | None = None,
        hold: bool = False,
        precise: bool = False,
    ) -> tuple[RunResponse, Message]:
        """Run one call and return the comparison of its outputs."""
        self.hand_weights(reference_client, serial, seed, seconds, distribution)
        written = reference_client.effects["changed"]
        ran = self.hand_over(
            "run", RunResponse, seconds, serial=serial, seed=seed, distribution=distribution, hold=hold, written=written
        )
        verdict = reference_client.verdict(
            "check", seed=seed, path=str(self.outputs), outputs=ran.described(), distribution=distribution,
            precise=precise, hold=hold, written=written, parts=ran.parts,
        )  # fmt: skip
        if self.cannot_share(verdict):
            return self.compared(reference_client, serial, seed, seconds, distribution, hold, precise)
        if verdict["status"] == Status.OK:
            if changed := sorted(set(ran.weights) - reference_client.written_weights):
                raise self.rejected("weights-changed", changed[0], WRITES_WEIGHTS)
            for name, (rule, what, why) in SIDE_EFFECTS.items():
                if affected := reference_client.side_effects(name, getattr(ran, name)):
                    raise self.rejected(rule, f"{what} {affected[0]}", why)
        return ran, verdict

    def hand_weights(
        self,
        reference_client: ReferenceClient,
        serial: int,
        seed: int,
        seconds: float,
        distribution: str | None = None,
    ) -> None:
        """Give the candidate the reference's weights for this seed."""
        path = str(self.worker.inbox / "state.pt")
        shared = reference_client.call(
            "state", seed=seed, path=path, share=self._share_weights, distribution=distribution
        )["shared"]
        written = reference_client.effects["changed"]
        loaded = self.ask(WeightsResponse, seconds, "weights", serial=serial, path=path, shared=shared, written=written)
        if shared is not None and not loaded.read:
            self._share_weights = False
            self.hand_weights(reference_client, serial, seed, seconds, distribution)

    def hand_over(self, op: str, form: Any = OutputsResponse, seconds: float | None = None, **arguments: Any) -> Any:
        """Send a request whose answer describes outputs that the reference worker can open."""
        seconds = self._limits.call_s if seconds is None else seconds
        return self.ask(form, seconds, op, outputs=str(self.outputs), share=self._share, **arguments)

    def cannot_share(self, verdict: Message) -> bool:
        """Return whether outputs must be handed over once more, through a file."""
        unreadable = self._share and bool(verdict.get("unreadable"))
        self._share = self._share and not unreadable
        return unreadable
