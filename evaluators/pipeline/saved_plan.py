"""A launch plan from a folder, executed in a contained process: it may come from anywhere."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...core.errors import DeviceError, ResultsError
from ...core.launch_plan import LaunchPlan
from ...core.text import first_line
from ..candidate.replayer import Replayer
from ..candidate.verified import CandidateError, RecordedPlan
from ..replay.saved import saved_constants, saved_plan
from ..settings import Limits, Sandbox
from ..workers.handover import Handover
from ..workers.tensor_ipc import Outputs, OutputTensor, UnreadableTensorError
from .processes import Processes


class SavedPlan:
    """A plan that was loaded from a folder; call it with a list of inputs and the weights by name.

    These are tensors of the shapes, strides and dtypes that the plan was recorded with; where one is not, or is on
    another device, calls raise `ResultsError`. They are copied to the process that executes the plan, and the result
    from there. `close` ends that process; so does leaving a `with` block.
    """

    def __init__(self, folder: Path, device: str, sandbox: Sandbox, limits: Limits) -> None:
        """Raises `ResultsError` for a folder without a plan, or with one that cannot be executed here."""
        self.plan: LaunchPlan = saved_plan(folder)
        """The launch plan."""
        self._device = device
        self._lock = threading.Lock()
        described, path = saved_constants(folder, self.plan)
        self._processes = Processes(device, limits, sandbox)
        # CUDA shares memory within one PID namespace only, and this process is in none of bubblewrap's.
        self._share = self._processes.passes_memory and self._processes.servers.containment.used is not Sandbox.BWRAP
        self._replayer = Replayer(self._processes.replay_workers, limits, self._share)
        self._inputs, self._weights = Handover(device), Handover(device)
        try:
            with _told(folder):
                reason = self._replayer.load(1, RecordedPlan(self.plan, described, path))
            if reason is not None:
                raise ResultsError(f"the plan in {folder} cannot be executed: {reason}")
        except BaseException:
            self.close()
            raise

    def __call__(self, inputs: Sequence[Any], weights: Mapping[str, Any]) -> Any:
        """Return what the kernel's `forward` would."""
        return self._called(inputs, weights, graph=False)

    def captured(self, inputs: Sequence[Any], weights: Mapping[str, Any]) -> Callable[[], Any]:
        """Return the plan as a CUDA graph on these tensors: each call runs it on what they contain then.

        The result lies in the same memory after every call. Raises `DeviceError` where the plan is for a CPU.
        """
        if self._device == "cpu":
            raise DeviceError("a CUDA graph needs a GPU", "load the plan of a kernel for a GPU with `device='cuda'`")
        kept = self._called(inputs, weights, graph=True)

        def run() -> Any:
            for mine, new in zip(_tensors(kept), _tensors(self._called(inputs, weights, graph=True)), strict=True):
                mine.copy_(new)
            return kept

        return run

    def close(self) -> None:
        """End the process that executes the plan."""
        self._replayer.close()
        self._processes.close()

    def __enter__(self) -> SavedPlan:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # the interpreter may be about to end
            self.close()

    def _called(self, inputs: Sequence[Any], weights: Mapping[str, Any], graph: bool) -> Any:
        self._require_device([*inputs, *weights.values()])
        with self._lock, _told(None):
            inbox = self._replayer.worker.inbox
            values = [*weights.values()]
            try:
                given = self._inputs.give(inputs, inbox / "inputs.bin", self._share)
                named = {"names": [*weights], "given": self._weights.give(values, inbox / "weights.bin", self._share)}
            except TypeError as error:
                raise ResultsError(f"the plan cannot be executed: {error}", "give what its kernel takes") from None
            found = self._replayer.called(1, given, named, graph)
            if isinstance(found, str):
                raise ResultsError(f"the plan cannot be executed: {found}", "give what its kernel takes")
            (described,) = found.outputs
            results = self._read(described)
        if self.plan.returns == "tensor":
            return results[0]
        return tuple(results) if self.plan.returns == "tuple" else results

    def _read(self, described: Sequence[OutputTensor]) -> list[Any]:
        """Return copies of what the process describes, which may be anything."""
        import torch

        reader, found = Outputs(self._replayer.outputs), []
        for item in described:
            dtype = getattr(torch, str(item.dtype), None)
            if item.shape is None or not isinstance(dtype, torch.dtype) or not item.stored:
                raise ResultsError(f"the plan returned {item.type}, not a tensor with memory of its own")
            try:
                wanted = torch.empty(item.shape, dtype=dtype, device=self._device)
                wanted.copy_(reader.next(item.model_dump(), wanted))
            except (UnreadableTensorError, RuntimeError, TypeError, OverflowError) as error:  # a shape may be any
                raise ResultsError(f"the plan cannot be executed: {first_line(error)}") from None
            found.append(wanted)
        return found

    def _require_device(self, values: Sequence[Any]) -> None:
        import torch

        for value in values:
            if isinstance(value, torch.Tensor) and value.device.type != torch.device(self._device).type:
                raise ResultsError(f"a tensor on {value.device}, but the plan was loaded for {self._device}")


def load_plan(folder: Path, device: str = "cpu", sandbox: Sandbox = Sandbox.AUTO) -> SavedPlan:
    """Check and compile a saved plan. Of the folder only the plan itself and its constants are read.

    Raises `ResultsError` for a folder without a plan, or with one that cannot be executed here, and `DeviceError`
    where there is no such device, or the sandbox does not work.
    """
    _require_device(device)
    return SavedPlan(folder, device, sandbox, Limits())


@contextlib.contextmanager
def _told(folder: Path | None) -> Iterator[None]:
    """Raise what ends the process that executes a plan as an error of the plan."""
    try:
        yield
    except CandidateError as failure:
        where = "the plan" if folder is None else f"the plan in {folder}"
        raise ResultsError(f"{where} cannot be executed: {failure.message}") from None


def _tensors(result: Any) -> Sequence[Any]:
    return result if isinstance(result, tuple | list) else [result]


def _require_device(device: str) -> None:
    import torch

    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise DeviceError(
            f"no device {device}: {str(error).splitlines()[0]}", "take `cpu`, `cuda` or `cuda:N`"
        ) from None
