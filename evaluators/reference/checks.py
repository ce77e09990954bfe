"""Requests that compare a candidate's own results with the reference's."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...core import Status
from ..correctness.compare import compare, dtype_name, failed
from ..correctness.digest import HeldOutput
from ..correctness.trivial_outputs import TrivialOutput
from ..workers.channel import Message
from ..workers.modules import form_of, outputs_of
from ..workers.tensor_ipc import Outputs, StateBuffer, UnreadableTensorError
from ..workers.user_call import result_parts
from .comparison import Comparison
from .drawn_reference import DrawnReference


class CheckRequests:
    """A candidate's weights, and the comparison of what it returns; each method serves the request of its name."""

    REQUESTS = ("state", "check", "same", "check_timed", "learn_start")

    def __init__(self, reference: DrawnReference, comparison: Comparison) -> None:
        self._reference = reference
        self._comparison = comparison
        self._held: list[Any] = []
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
        parts: Sequence[str] | None = None,
    ) -> Message:
        """Compare the candidate's outputs for these inputs (`DrawnReference.inputs_of`) with the reference, whose
        result must have the same `form`. What a user's reference returns beside tensors must be among the same `parts`.

        With `keep_open`, shared memory that the outputs are in stays open for the next time. Behind its outputs are the
        inputs with the numbers in `written`, which the reference writes to. `precise` also returns the errors against
        fp64, and the trivial outputs that would have passed; `hold` remembers the candidate's for `same`.
        """
        reference = self._reference
        reference.make_room()
        reference.prepare(seed, distribution, variant)
        fp32 = self._comparison.in_fp32(reference.inputs, distribution, precise)
        wanted = reference.model(*reference.inputs)
        if form is not None and form != form_of(wanted):
            return failed(Status.WRONG_SHAPE, f"returns a {form}, the reference a {form_of(wanted)}")
        if parts is not None and (different := _different_parts(result_parts(), parts)):
            return failed(Status.WRONG_VALUE, different)
        expected = outputs_of(wanted)
        inputs = [reference.inputs[number] for number in written]
        if reference.changes_inputs:  # what is compared with fp64 begins with what the call began with
            reference.prepare(seed, distribution, variant)
        self._comparison.exactness.learn(fp32, expected, distribution)
        same, self._comparison.start.used = _same_memory(expected, inputs), None
        allowed = replace(self._comparison.allowed(distribution), same=same)
        verdict = compare([*expected, *inputs], outputs, self._outputs(path, keep_open), allowed, written)
        if verdict["status"] == Status.WRONG_VALUE:
            learned = distribution is None and self._comparison.learn_rounding(fp32 or expected)
            if learned:
                allowed = replace(self._comparison.allowed(distribution), same=same)
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
            verdict["beside_start"] = self._comparison.start.said
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
        except (UnreadableTensorError, ValueError):
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
        for output, described in zip(drawn, outputs, strict=True):
            inputs, distribution = reference.inputs_of(*output), output[1]
            fp32 = self._comparison.in_fp32(inputs, distribution)
            expected = reference.outputs(inputs)
            self._comparison.exactness.learn(fp32, expected, distribution)
            if reference.changes_inputs:
                inputs = reference.inputs_of(*output)
            allowed = self._comparison.allowed(distribution, inputs)
            verdict = {**compare(expected, described, reader, allowed), "distribution": distribution}
            actual = verdict.pop("actual", [])
            if verdict["status"] == Status.OK:
                verdict |= self._comparison.further_verdict(inputs, expected, actual, fp32, allowed, distribution)
            if verdict["status"] != Status.OK or verdict.get("trivial_output"):
                break
        return verdict

    def learn_start(
        self, seed: int, path: str, outputs: list[Message], written: list[int], distribution: str | None = None
    ) -> Message:
        """Measure the errors of what a user's function as it stands returned for these inputs, and of the inputs that
        the reference writes to behind that, where it has the reference's form."""
        reference = self._reference
        reference.prepare(seed, distribution)
        expected = reference.outputs(reference.inputs)
        expected += [reference.inputs[number] for number in written]
        reader, actual = self._outputs(path, False), []
        for wanted, got in zip(expected, outputs, strict=False):
            if (list(wanted.shape), dtype_name(wanted)) != (got["shape"], got["dtype"]) or not got["stored"]:
                return {}
            actual.append(reader.next(got, wanted))
        if len(actual) == len(expected):
            reference.prepare(seed, distribution)  # the reference may have changed them
            self._comparison.learn_start(distribution, reference.inputs, expected, actual)
        reference.release()
        return {}

    def _outputs(self, path: str, keep_open: bool) -> Outputs:
        return Outputs(Path(path), self._reference.opened if keep_open else None)


def _same_memory(outputs: Sequence[Any], inputs: Sequence[Any]) -> dict[int, int]:
    """Return which of the inputs behind the outputs, by place, are outputs themselves."""
    return {
        len(outputs) + place: number
        for place, value in enumerate(inputs)
        for number, output in enumerate(outputs)
        if (output.data_ptr(), output.shape, output.dtype) == (value.data_ptr(), value.shape, value.dtype)
    }


def _different_parts(wanted: Sequence[str], parts: Sequence[str]) -> str:
    """Return how a result differs from the reference's in what is not a tensor; empty where it does not, or where the
    reference returns tensors alone."""
    if not wanted or list(wanted) == list(parts):
        return ""
    if len(wanted) != len(parts):
        return f"returned {', '.join(parts) or 'tensors alone'}; the reference {', '.join(wanted)}"
    number = next(place for place, pair in enumerate(zip(wanted, parts, strict=True)) if pair[0] != pair[1])
    return f"returned {parts[number]} in place {number} of its result, the reference {wanted[number]}"
