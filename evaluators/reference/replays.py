"""Requests about launch plans: loaded, compared with the reference, timed beside it, on the same inputs and weights."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

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
from .comparison import Comparison
from .drawn_reference import DrawnReference

EXTRA_CALLS = 4
"""After a chunk of timed calls, fewer than this many others follow, by chance: a kernel that counts its calls cannot
know which one is checked."""


class ReplayRequests:
    """The plans of the candidates at one workload; each method serves the request of its name."""

    REQUESTS = (
        "load_plan", "fit_plan", "forget_plans", "replay", "replay_operators", "replay_time", "replay_recheck",
    )  # fmt: skip

    def __init__(self, reference: DrawnReference, comparison: Comparison) -> None:
        self._reference = reference
        self._comparison = comparison
        self._session = ReplaySession(reference.device, Path.cwd() / "plans")
        self._timed: dict[int, tuple[int, int, list[Any]]] = {}
        self._wrote_weights: set[int] = set()

    def load_plan(self, number: int, plan: str, constants: list[Message], path: str) -> Message:
        """Check and compile a candidate's plan; `reason` in the response says why it cannot be replayed.

        Computes nothing on the device, where others may measure meanwhile.
        """
        self._reference.scheduling.restore()
        return {"reason": self._session.load(number, plan, constants, Path(path))}

    def fit_plan(self, number: int) -> Message:
        """Return as `reason` why a plan does not fit the reference's inputs and weights, or None."""
        reference = self._reference
        reference.prepare(0 if reference.weights is None else reference.weights)
        return {"reason": self._session.misfit(number, reference.inputs, reference.model)}

    def forget_plans(self) -> Message:
        """Forget all plans."""
        self._session.clear()
        self._timed.clear()
        self._wrote_weights.clear()
        return {}

    def replay(
        self,
        number: int,
        seed: int,
        written: list[int],
        distribution: str | None = None,
        precise: bool = False,
    ) -> Message:
        """Replay a plan on the weights and inputs of a seed, and compare with the reference.

        Results are also the inputs with the numbers in `written`, which the reference writes to.
        `effects` in the response are the inputs that it changed or returned, `weights` the weights that it changed,
        `kept` the outputs whose memory outlives the call. `precise` also compares with fp64 and with trivial outputs,
        and replays again: `deterministic` says whether that gave the same bits.
        """
        reference = self._reference
        reference.prepare(seed, distribution)
        try:
            outputs, result, found, inputs = self._replayed(number, written)
            held = [HeldOutput.of(one) for one in outputs] if precise else []
        except Exception as error:  # the plan's fault, not the reference's
            return failed(Status.RUNTIME_ERROR, describe(error))
        if found["effects"]["changed"]:
            reference.prepare(seed, distribution)
        # What a plan left alone, and was not copied, is about to be written to.
        own = [one.clone() if one is reference.inputs[at] else one for at, one in zip(written, inputs, strict=True)]
        fp32 = self._comparison.in_fp32(reference.inputs, distribution, precise)
        wanted = reference.model(*reference.inputs)
        if form_of(result) != form_of(wanted):
            message = f"returns a {form_of(result)}, the reference a {form_of(wanted)}"
            return {**failed(Status.WRONG_SHAPE, message), **found}
        expected = outputs_of(wanted)
        self._comparison.exactness.learn(fp32, expected, distribution)
        allowed = self._comparison.allowed(distribution)
        theirs = [reference.inputs[at] for at in written]
        verdict = _compared([*expected, *theirs], [*outputs, *own], allowed, written)
        del theirs, own, inputs
        if verdict["status"] == Status.OK and precise:
            reference.prepare(seed, distribution)  # the reference may have changed them
            verdict |= self._comparison.precise_verdict(expected, outputs, fp32, allowed)
            del outputs, result, wanted, expected, fp32  # large, and not needed any more
            self._session.renew(number)
            again, *_ = self._replayed(number)
            verdict["deterministic"] = [HeldOutput.of(one) for one in again] == held
            del again
        self._session.renew(number)
        reference.release()
        return {**verdict, **found}

    def _replayed(self, number: int, written: Sequence[int] = ()) -> tuple[list[Any], Any, Message, list[Any]]:
        """Replay a plan on copies of the current inputs.

        Returns its outputs, its result, its side effects, and the copies with the numbers in `written`.
        """
        import torch

        reference = self._reference
        inputs = reference.inputs if is_large(reference.inputs) else copied(reference.inputs)
        weights = weights_of(reference.model)
        on_inputs, on_weights = SideEffects(inputs), WrittenWeights(weights)
        kept = SideEffects([*weights.values(), *self._session.constants(number)])
        poison(inputs)
        with torch.no_grad():
            result = self._session.call(number, reference.model)(*inputs)
        outputs = outputs_of(result)
        effects = on_inputs.of(outputs)
        self._session.renew(number, outputs)
        if effects["changed"] and inputs is reference.inputs:
            reference.forget_inputs()
        found = {"effects": effects, "weights": on_weights.names(), "kept": kept.of(outputs)["returned"]}
        return outputs, result, found, [inputs[at] for at in written]

    def replay_operators(self, number: int, seed: int) -> Message:
        """Return the torch operators of one replay, as `guards.torch_share.Operator`."""
        reference = self._reference
        reference.prepare(seed)
        call = self._session.call(number, reference.model)
        _, seen = op_counter.observe(lambda: call(*reference.inputs))
        self._session.renew(number)
        return {"operators": op_counter.grouped(seen)}

    def replay_time(self, number: int, samples: int, seed: int, graph: bool) -> Message:
        """Time replays of a plan on inputs drawn from the seed; the weights are the current ones."""
        import torch

        reference = self._reference
        reference.clear()
        self._timed.pop(number, None)
        call = self._session.call(number, reference.model)
        written, renew = WrittenWeights(weights_of(reference.model)), self._renewal(number)
        reference.timed.renew = renew
        try:
            with torch.no_grad():
                timed = reference.timed.time(1 + number, call, seed, samples, graph)
                calls = reference.timed.go_on(1 + number, call, seed, secrets.randbelow(EXTRA_CALLS))
        finally:
            reference.timed.renew = lambda: None
        last, reference.timed.last = reference.timed.last, None
        self._timed[number] = (seed, calls, outputs_of(last))
        self._session.renew(number, self._timed[number][2])
        if set(written.names()) - reference.written_weights:
            reference.forget_weights()
            self._wrote_weights.add(number)
        return timed

    def _renewal(self, number: int) -> Callable[[], None]:
        """Return what undoes a call of a plan: in its memory, and in the weights that it may write to."""
        weights = weights_of(self._reference.model)
        first = {name: weights[name].clone() for name in self._reference.written_weights}

        def renew() -> None:
            self._session.renew(number)
            for name, tensor in first.items():
                weights[name].copy_(tensor)

        return renew

    def replay_recheck(self, number: int) -> Message:
        """Compare the outputs of the last replay beside timing."""
        reference = self._reference
        if number in self._wrote_weights:
            return failed(Status.WRONG_VALUE, "it wrote to the weights while it was timed")
        seed, calls, outputs = self._timed[number]
        reference.release_timed()
        inputs = Feed(reference.problem).at(seed, calls)
        expected = reference.outputs(inputs)
        return _compared(expected, outputs, self._comparison.allowed(inputs=inputs))


def _compared(
    expected: Sequence[Any], outputs: Sequence[Any], allowed: Allowed, written: Sequence[int] = ()
) -> Message:
    """Compare outputs of this process, the last of which are inputs that were written to."""
    described = [tensor_ipc.describe(one) for one in outputs]
    verdict = compare(expected, described, HeldOutputs(list(outputs)), allowed, written)
    verdict.pop("actual", None)
    return verdict
