"""A launch plan on disk: `plan.json`, the constants that it names, and its code to read. Nothing in it is Python."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...core.errors import ResultsError
from ...core.files import write_whole
from ...core.launch_plan import KernelCode, LaunchPlan
from ..sandbox.untrusted_files import read_untrusted_file
from ..workers.channel import Message
from ..workers.tensor_ipc import Outputs, OutputTensor
from .values import UnplannableCall, dtype_of

PLAN, CONSTANTS, DESCRIBED = "plan.json", "constants.bin", "constants.json"
MAX_PLAN_BYTES = 32 << 20
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
    size = (folder / PLAN).lstat().st_size
    if size > MAX_PLAN_BYTES:
        raise ValueError(f"{PLAN} has {size >> 20} MB")
    return LaunchPlan.model_validate_json(bytes(read_untrusted_file(folder / PLAN, size)))


def saved_plan(folder: Path) -> LaunchPlan:
    """Return the plan of a folder. Raises `ResultsError` for a folder without one."""
    try:
        return _read(folder)
    except (OSError, ValueError) as error:
        raise _no_plan(folder, error) from None


def saved_constants(folder: Path, plan: LaunchPlan) -> tuple[list[Message], Path]:
    """Return the descriptions of a plan's constants, and the file that they are in. Raises `ResultsError`."""
    path = folder / CONSTANTS
    try:
        text = bytes(read_untrusted_file(folder / DESCRIBED, (folder / DESCRIBED).lstat().st_size))
        described = [OutputTensor.model_validate(one).model_dump() for one in json.loads(text)]
        at = 0
        for number, digest in plan.constants.items():
            size = plan.layouts[number].bytes
            if hashlib.sha256(read_untrusted_file(path, size, at)).hexdigest() != digest:
                raise ValueError(f"{CONSTANTS} is not of this plan")
            at += size
    except (OSError, ValueError, KeyError, RecursionError, TypeError) as error:
        raise _no_plan(folder, error) from None
    return described, path


def _no_plan(folder: Path, error: Exception) -> ResultsError:
    told = (str(error).splitlines() or [type(error).__name__])[0]
    return ResultsError(f"no launch plan in {folder}: {told}", "`kernelwright plan --save-plan` writes one")


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
