"""Requests about launch plans: loaded, compared with the reference, timed beside it, on the same inputs and weights."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...core import Status
from ..correctness.compare import Allowed, compare, failed
from ..correctness.digest import HeldOutput
from ..correctness.fp64 import copied
from ..correctness.inputs import Feed
from ..correctness.side_effects import SideEffects, WrittenWeights, poison
from ..profiling import op_counter
from ..replay.session import ReplaySession
from ..replay.values import form_of, weights_of
from ..workers import tensor_ipc
from ..workers.channel import Message
from ..workers.memory import is_large
from ..workers.modules import outputs_of
from ..workers.request_loop import describe
from ..workers.tensor_ipc import HeldOutputs

if TYPE_CHECKING:
    from .worker import ReferenceWorker

EXTRA_CALLS = 4
"""After a chunk of timed calls, fewer than this many others follow, by chance: a kernel that counts its calls cannot
know which one is checked."""


class ReplayRequests:
    """The plans of the candidates at one workload; each method serves the request of its name."""

    REQUESTS = ("load_plan", "forget_plans", "replay", "replay_operators", "replay_time", "replay_recheck")

    def __init__(self, worker: ReferenceWorker) -> None:
        self._worker = worker
        folder = Path.cwd() / "plans"
        folder.mkdir(exist_ok=True)
        self._session = ReplaySession(worker.device, folder)
        self._timed: dict[int, tuple[int, int, list[Any]]] = {}
        self._wrote_weights: set[int] = set()

    def load_plan(self, number: int, plan: str, constants: list[Message], path: str) -> Message:
        """Check and compile a candidate's plan; `reason` in the response says why it cannot be replayed."""
        worker = self._worker
        worker.scheduling.restore()
        worker.prepare(0 if worker.weights is None else worker.weights)
        reason = self._session.load(number, plan, constants, Path(path), worker.inputs, worker.model)
        return {"reason": reason}

    def forget_plans(self) -> Message:
        """Forget all plans."""
        self._session.clear()
        self._timed.clear()
        self._wrote_weights.clear()
        return {}

    def replay(self, number: int, seed: int, distribution: str | None = None, precise: bool = False) -> Message:
        """Replay a plan on the weights and inputs of a seed, and compare with the reference.

        `effects` in the response are the inputs that it changed or returned, `weights` the weights that it changed,
        `kept` the outputs whose memory outlives the call. `precise` also compares with fp64 and with trivial outputs,
        and replays again: `deterministic` says whether that gave the same bits.
        """
        worker = self._worker
        worker.prepare(seed, distribution)
        try:
            outputs, result, found = self._replayed(number)
            held = [HeldOutput.of(one) for one in outputs] if precise else []
        except Exception as error:  # the plan's fault, not the reference's
            return failed(Status.RUNTIME_ERROR, describe(error))
        if found["effects"]["changed"]:
            worker.prepare(seed, distribution)
        fp32 = worker.in_fp32(worker.inputs, distribution, precise)
        wanted = worker.model(*worker.inputs)
        if form_of(result) != form_of(wanted):
            message = f"returns a {form_of(result)}, the reference a {form_of(wanted)}"
            return {**failed(Status.WRONG_SHAPE, message), **found}
        expected = outputs_of(wanted)
        worker.exactness.learn(fp32, expected, distribution)
        allowed = worker.allowed(distribution)
        verdict = _compared(expected, outputs, allowed)
        if verdict["status"] == Status.OK and precise:
            worker.prepare(seed, distribution)  # the reference may have changed them
            verdict |= worker.precise_verdict(expected, outputs, fp32, allowed)
            del outputs, result, wanted, expected, fp32  # large, and not needed any more
            self._session.renew(number)
            again, *_ = self._replayed(number)
            verdict["deterministic"] = [HeldOutput.of(one) for one in again] == held
            del again
        self._session.renew(number)
        worker.release()
        return {**verdict, **found}

    def _replayed(self, number: int) -> tuple[list[Any], Any, Message]:
        """Replay a plan on copies of the current inputs; return its outputs, its result and its side effects."""
        import torch

        worker = self._worker
        inputs = worker.inputs if is_large(worker.inputs) else copied(worker.inputs)
        weights = weights_of(worker.model)
        on_inputs, written = SideEffects(inputs), WrittenWeights(weights)
        kept = SideEffects([*weights.values(), *self._session.constants(number)])
        poison(inputs)
        with torch.no_grad():
            result = self._session.call(number, worker.model)(*inputs)
        outputs = outputs_of(result)
        effects = on_inputs.of(outputs)
        self._session.renew(number, outputs)
        if effects["changed"] and inputs is worker.inputs:
            worker.forget_inputs()
        found = {"effects": effects, "weights": written.names(), "kept": kept.of(outputs)["returned"]}
        return outputs, result, found

    def replay_operators(self, number: int, seed: int) -> Message:
        """Return the torch operators of one replay, as `guards.torch_share.Operator`."""
        worker = self._worker
        worker.prepare(seed)
        call = self._session.call(number, worker.model)
        _, seen = op_counter.observe(lambda: call(*worker.inputs))
        self._session.renew(number)
        return {"operators": op_counter.grouped(seen)}

    def replay_time(self, number: int, samples: int, seed: int, graph: bool) -> Message:
        """Time replays of a plan on inputs drawn from the seed; the weights are the current ones."""
        import torch

        worker = self._worker
        worker.clear()
        self._timed.pop(number, None)
        call = self._session.call(number, worker.model)
        written, renew = WrittenWeights(weights_of(worker.model)), self._renewal(number)
        worker.timed.renew = renew
        try:
            with torch.no_grad():
                timed = worker.timed.time(1 + number, call, seed, samples, graph)
                last, calls = worker.timed.last, timed["calls"]
                worker.timed.last = None
                for _ in range(secrets.randbelow(EXTRA_CALLS)):
                    last = None
                    renew()
                    _, inputs = worker.timed.feed(seed).next()
                    last, calls = call(*inputs), calls + 1
        finally:
            worker.timed.renew = lambda: None
        self._timed[number] = (seed, calls, outputs_of(last))
        self._session.renew(number, self._timed[number][2])
        if set(written.names()) - worker.written_weights:
            worker.forget_weights()
            self._wrote_weights.add(number)
        return timed

    def _renewal(self, number: int) -> Callable[[], None]:
        """Return what undoes a call of a plan: in its memory, and in the weights that it may write to."""
        weights = weights_of(self._worker.model)
        first = {name: weights[name].clone() for name in self._worker.written_weights}

        def renew() -> None:
            self._session.renew(number)
            for name, tensor in first.items():
                weights[name].copy_(tensor)

        return renew

    def replay_recheck(self, number: int) -> Message:
        """Compare the outputs of the last replay beside timing."""
        worker = self._worker
        if number in self._wrote_weights:
            return failed(Status.WRONG_VALUE, "it wrote to the weights while it was timed")
        seed, calls, outputs = self._timed[number]
        worker.release_timed()
        expected = outputs_of(worker.model(*Feed(worker.problem).at(seed, calls)))
        return _compared(expected, outputs, worker.allowed())


def _compared(expected: Sequence[Any], outputs: Sequence[Any], allowed: Allowed) -> Message:
    """Compare outputs of this process."""
    described = [tensor_ipc.describe(one) for one in outputs]
    verdict = compare(list(expected), described, HeldOutputs(list(outputs)), allowed)
    verdict.pop("actual", None)
    return verdict
