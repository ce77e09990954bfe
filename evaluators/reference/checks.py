"""Requests that compare a candidate's own results with the reference's."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from ...core import Status
from ..correctness.compare import compare, failed
from ..correctness.digest import HeldOutput
from ..correctness.trivial_outputs import TrivialOutput
from ..workers.channel import Message
from ..workers.modules import form_of, outputs_of
from ..workers.tensor_ipc import OpenMemory, Outputs, StateBuffer, UnreadableTensor
from .comparison import Comparison
from .drawn_reference import DrawnReference


class CheckRequests:
    """A candidate's weights, and the comparison of what it returns; each method serves the request of its name."""

    REQUESTS = ("state", "check", "same", "check_timed")

    def __init__(self, reference: DrawnReference, comparison: Comparison) -> None:
        self._reference = reference
        self._comparison = comparison
        self._held: list[Any] = []
        self._opened = OpenMemory()
        self._state: StateBuffer | None = None

    def state(self, seed: int, path: str, share: bool, distribution: str | None = None) -> Message:
        """Pass on the weights drawn from the seed, if there are any: in device memory if requested, else in a file.

        `shared` in the response describes that memory; None where it cannot be shared. Other weights for the
        distribution `OTHER_WEIGHTS`.
        """
        import torch

        reference = self._reference
        reference.prepare_model(seed, distribution)
        state = reference.model.state_dict()
        if share and state:
            with contextlib.suppress(RuntimeError):
                self._state = self._state or StateBuffer(reference.device)
                return {"shared": self._state.publish(state)}
        if state:
            torch.save(state, path)
        return {"shared": None}

    def check(
        self,
        seed: int,
        path: str,
        outputs: list[Message],
        written: list[int],
        distribution: str | None = None,
        variant: int = 0,
        precise: bool = False,
        hold: bool = False,
        form: str | None = None,
        keep_open: bool = False,
    ) -> Message:
        """Compare the candidate's outputs for these inputs (`DrawnReference.inputs_of`) with the reference, whose
        result must have the same `form`.

        With `keep_open`, shared memory that the outputs are in stays open for the next time. Behind its outputs are the
        inputs with the numbers in `written`, which the reference writes to. `precise` also returns the errors against
        fp64, and the trivial outputs that would have passed; `hold` remembers the candidate's for `same`.
        """
        reference = self._reference
        reference.prepare(seed, distribution, variant)
        fp32 = self._comparison.in_fp32(reference.inputs, distribution, precise)
        wanted = reference.model(*reference.inputs)
        if form is not None and form != form_of(wanted):
            return failed(Status.WRONG_SHAPE, f"returns a {form}, the reference a {form_of(wanted)}")
        expected = outputs_of(wanted)
        inputs = [reference.inputs[number] for number in written]
        self._comparison.exactness.learn(fp32, expected, distribution)
        allowed = self._comparison.allowed(distribution)
        verdict = compare([*expected, *inputs], outputs, self._outputs(path, keep_open), allowed, written)
        if verdict["status"] == Status.WRONG_VALUE and distribution is None:
            reference.prepare(seed, variant=variant)  # the reference may have changed them
            if self._comparison.learn_rounding(fp32 or expected):
                allowed = self._comparison.allowed()
                verdict = compare([*expected, *inputs], outputs, self._outputs(path, keep_open), allowed, written)
        actual = verdict.pop("actual", [])[: len(expected)]
        if hold:
            self._held = [HeldOutput.of(tensor) for tensor in actual]
        if (
            actual
            and verdict["status"] != Status.OK
            and (trivial := TrivialOutput.of(actual, expected, reference.inputs)) is not None
        ):
            verdict["message"] = f"returned {trivial}: {verdict['message']}"
        if verdict["status"] == Status.OK:
            reference.prepare(seed, distribution, variant)  # the reference may have changed them
            verdict |= self._comparison.further_verdict(
                reference.inputs, expected, actual, fp32, allowed, distribution, precise
            )
        del wanted, expected, actual, inputs
        reference.release()
        return verdict

    def same(self, path: str, outputs: list[Message], keep_open: bool = False) -> Message:
        """Return whether outputs are bitwise equal to the held ones."""
        reader, returned = self._outputs(path, keep_open), outputs[: len(self._held)]
        try:
            again = [reader.next(got, held.like) for got, held in zip(returned, self._held, strict=True)]
        except (UnreadableTensor, ValueError):
            return {"same": False}
        return {"same": all(held == HeldOutput.of(tensor) for tensor, held in zip(again, self._held, strict=True))}

    def check_timed(
        self,
        weights: int,
        drawn: list[tuple[int, str | None, int]],
        path: str,
        outputs: list[list[Message]],
        keep_open: bool = False,
    ) -> Message:
        """Compare the outputs of timed calls, given their weights and what their inputs are (`inputs_of`).

        Returns the verdict on the first that differs, or on the last, and as `distribution` that of its inputs.
        """
        reference = self._reference
        reference.prepare_model(weights)
        reference.release_timed()
        reader, verdict = self._outputs(path, keep_open), {}
        for one, described in zip(drawn, outputs, strict=True):
            inputs, distribution = reference.inputs_of(*one), one[1]
            fp32 = self._comparison.in_fp32(inputs, distribution)
            expected = reference.outputs(inputs)
            self._comparison.exactness.learn(fp32, expected, distribution)
            if reference.changes_inputs:
                inputs = reference.inputs_of(*one)
            allowed = self._comparison.allowed(distribution, inputs)
            verdict = {**compare(expected, described, reader, allowed), "distribution": distribution}
            actual = verdict.pop("actual", [])
            if verdict["status"] == Status.OK:
                verdict |= self._comparison.further_verdict(inputs, expected, actual, fp32, allowed, distribution)
            if verdict["status"] != Status.OK or verdict.get("trivial_output"):
                break
        return verdict

    def _outputs(self, path: str, keep_open: bool) -> Outputs:
        return Outputs(Path(path), self._opened if keep_open else None)
