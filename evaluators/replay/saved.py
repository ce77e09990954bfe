"""A launch plan on disk: `plan.json`, the constants that it names, and its code to read. Nothing in it is Python."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...core.errors import DeviceError, ResultsError
from ...core.files import write_whole
from ...core.launch_plan import KernelCode, LaunchPlan
from ..workers.channel import Message
from ..workers.tensor_ipc import Outputs, UnreadableTensor
from .executor import PlanExecutor
from .values import UnplannableCall, digest_of, dtype_of

PLAN, CONSTANTS, DESCRIBED = "plan.json", "constants.bin", "constants.json"
_ADVICE = "choose another folder"


def save_plan(plan: LaunchPlan, constants: Sequence[Message], path: Path, folder: Path) -> None:
    """Write a plan, with its constants from the file at `path`, in the place of one that the folder has.

    Each kernel's code is also written as a file, for reading only. Raises `ResultsError`.
    """
    with contextlib.suppress(OSError, ValueError):
        for code in _read(folder).codes.values():
            (folder / _file_name(code)).unlink(missing_ok=True)
    for code in plan.codes.values():
        write_whole(folder / _file_name(code), code.text, _ADVICE)
    write_whole(folder / DESCRIBED, json.dumps(list(constants)) + "\n", _ADVICE)
    if constants:
        write_whole(folder / CONSTANTS, path.read_bytes(), _ADVICE)
    write_whole(folder / PLAN, plan.model_dump_json(indent=1) + "\n", _ADVICE)


def _file_name(code: KernelCode) -> str:
    return f"{code.name}.{code.digest[:8]}.{code.kind}"


def _read(folder: Path) -> LaunchPlan:
    return LaunchPlan.model_validate_json((folder / PLAN).read_text())


class SavedPlan:
    """A plan that was loaded from a folder; call it with a list of inputs and the weights by name.

    These are tensors of the shapes, strides and dtypes that the plan was recorded with; where one is not, or is on
    another device, calls raise `ResultsError`.
    """

    def __init__(self, executor: PlanExecutor, device: str) -> None:
        self._executor = executor
        self._device = device

    @property
    def plan(self) -> LaunchPlan:
        """What it does, as data."""
        return self._executor.plan

    def __call__(self, inputs: Sequence[Any], weights: Mapping[str, Any]) -> Any:
        """Return what the kernel's `forward` would."""
        import torch

        self._require_fit(inputs, weights)
        with torch.no_grad(), _on(self._device):
            return self._executor(inputs, weights)

    def captured(self, inputs: Sequence[Any], weights: Mapping[str, Any]) -> Callable[[], Any]:
        """Return the plan as a CUDA graph on these tensors: each call runs it on what they contain then.

        The result lies in the same memory after every call. Raises `DeviceError` where the plan is for a CPU.
        """
        if self._device == "cpu":
            raise DeviceError("a CUDA graph needs a GPU", "load the plan of a kernel for a GPU with `device='cuda'`")
        self._require_fit(inputs, weights)
        with _on(self._device):
            return self._executor.captured(inputs, weights)

    def _require_fit(self, inputs: Sequence[Any], weights: Mapping[str, Any]) -> None:
        import torch

        try:
            self._executor.require_fit(inputs, weights)
        except UnplannableCall as reason:
            raise ResultsError(f"the plan cannot be executed: {reason}", "give what its kernel takes") from None
        for one in (*inputs, *weights.values()):
            if isinstance(one, torch.Tensor) and one.device.type != torch.device(self._device).type:
                raise ResultsError(f"a tensor on {one.device}, but the plan was loaded for {self._device}")


def load_plan(folder: Path, device: str = "cpu") -> SavedPlan:
    """Check and compile a saved plan. Of the folder only the plan itself and its constants are read.

    Raises `ResultsError` for a folder without a plan, or with one that cannot be executed here, and `DeviceError`
    where there is no such device.
    """
    _require_device(device)
    try:
        plan = _read(folder)
        described = json.loads((folder / DESCRIBED).read_text())
        constants = read_constants(plan, described, folder / CONSTANTS, device)
        if any(digest_of(tensor) != plan.constants[number] for number, tensor in constants.items()):
            raise UnplannableCall(f"{CONSTANTS} is not of this plan")
        with tempfile.TemporaryDirectory(prefix="kernelwright-plan-") as compiled, _on(device):
            return SavedPlan(PlanExecutor(plan, constants, Path(compiled), device), device)
    except (OSError, ValueError, UnreadableTensor) as error:
        told = str(error).splitlines()[0]
        hint = "`kernelwright plan --save-plan` writes one"
        raise ResultsError(f"no launch plan in {folder}: {told}", hint) from None
    except UnplannableCall as reason:
        raise ResultsError(f"the plan in {folder} cannot be executed: {reason}") from None


def _require_device(device: str) -> None:
    import torch

    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise DeviceError(
            f"no device {device}: {str(error).splitlines()[0]}", "take `cpu`, `cuda` or `cuda:N`"
        ) from None


def _on(device: str) -> Any:
    """Return a context in which this GPU is the current one."""
    import torch

    return contextlib.nullcontext() if device == "cpu" else torch.cuda.device(device)


def read_constants(plan: LaunchPlan, described: Sequence[Message], path: Path, device: str) -> Mapping[int, Any]:
    """Return the plan's constants by number. Raises `UnplannableCall` where they do not fit the plan."""
    import torch

    if len(described) != len(plan.constants):
        raise UnplannableCall("a plan without its constants")
    reader, found = Outputs(path), {}
    for number, description in zip(plan.constants, described, strict=True):
        layout = plan.layouts.get(number)
        if layout is None or description["shape"] != list(layout.shape) or not description["stored"]:
            raise UnplannableCall("a constant without memory of its own for every element")
        like = torch.empty(layout.shape, dtype=dtype_of(layout), device=device)
        found[number] = reader.next(description, like)
    return found
