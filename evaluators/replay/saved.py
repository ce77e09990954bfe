"""A launch plan on disk: `plan.json`, the constants that it names, and its code to read. Nothing in it is Python.

A plan that another process wrote is checked before it is compiled.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ...core.errors import ResultsError
from ...core.files import write_whole
from ...core.launch_plan import KernelCode, LaunchPlan, TorchStep
from ...core.quotation import plain
from ...core.text import BAD_DATA, LONGEST, first_line
from ..sandbox.untrusted_files import read_untrusted_file
from ..workers.channel import Message
from ..workers.tensor_ipc import Outputs, OutputTensor
from .constants import MAX_CONSTANT_BYTES
from .operators import ALLOCATIONS
from .plan_checks import check_references
from .values import UnplannableCallError, dtype_of

PLAN, CONSTANTS, DESCRIBED = "plan.json", "constants.bin", "constants.json"
MAX_PLAN_BYTES = 32 << 20
TOO_LARGE = f"a plan whose constants have more than {MAX_CONSTANT_BYTES >> 20} MB"
_ADVICE = "choose another folder"


def save_plan(plan: LaunchPlan, constants: Sequence[Message], path: Path, folder: Path) -> None:
    """Write a plan, with its constants from the file at `path`, in the place of one that the folder has.

    Each kernel's code is also written as a file, for reading only. Raises `ResultsError`.
    """
    with contextlib.suppress(OSError, ValueError, UnplannableCallError):
        for code in _codes(read_plan(folder / PLAN)):
            (folder / _file_name(code)).unlink(missing_ok=True)
    for code in _codes(plan):
        write_whole(folder / _file_name(code), code.text, _ADVICE)
    write_whole(folder / DESCRIBED, json.dumps(list(constants)) + "\n", _ADVICE)
    if constants:
        write_whole(folder / CONSTANTS, path.read_bytes(), _ADVICE)
    write_whole(folder / PLAN, plan.model_dump_json(indent=1) + "\n", _ADVICE)


def _codes(plan: LaunchPlan) -> Iterator[KernelCode]:
    return (code for part in plan.parts for code in part.codes.values())


def _file_name(code: KernelCode) -> str:
    return f"{code.name}.{code.digest[:8]}.{code.kind}"


def read_plan(path: Path) -> LaunchPlan:
    """Return the plan in a file that another process wrote, of which all parts are there.

    Raises `OSError` or `ValueError` where it is none, and `UnplannableCallError` for one that does not fit together.
    """
    plan = LaunchPlan.model_validate_json(_read(path))
    for part in plan.parts:
        check_references(part)
    return plan


def _read(path: Path) -> bytes:
    size = path.lstat().st_size
    if size > MAX_PLAN_BYTES:
        raise ValueError(f"{path.name} has {size >> 20} MB")
    return bytes(read_untrusted_file(path, size))


def saved_plan(folder: Path) -> LaunchPlan:
    """Return the plan of a folder. Raises `ResultsError` for a folder without one."""
    try:
        return read_plan(folder / PLAN)
    except (*BAD_DATA, UnplannableCallError) as error:
        raise _no_plan(folder, error) from None


def saved_constants(folder: Path, plan: LaunchPlan) -> tuple[list[Message], Path]:
    """Return the descriptions of a plan's constants, and the file that they are in. Raises `ResultsError`."""
    path = folder / CONSTANTS
    try:
        described = [OutputTensor.model_validate(load).model_dump() for load in json.loads(_read(folder / DESCRIBED))]
        if constant_bytes(plan) > MAX_CONSTANT_BYTES:
            raise ValueError(TOO_LARGE)
        at = 0
        for digest, size in [
            (digest_of, part.layouts[n].bytes) for part in plan.parts for n, digest_of in part.constants.items()
        ]:
            if hashlib.sha256(read_untrusted_file(path, size, at)).hexdigest() != digest:
                raise ValueError(f"{CONSTANTS} is not of this plan")
            at += size
    except BAD_DATA as error:
        raise _no_plan(folder, error) from None
    return described, path


def constant_bytes(plan: LaunchPlan) -> int:
    """Return the bytes of a plan's constants together."""
    return sum(part.layouts[number].bytes for part in plan.parts for number in part.constants)


def call_bytes(plan: LaunchPlan) -> int:
    """Return what a call of a plan takes, in bytes: its inputs, and what it allocates; 1 or more."""
    inputs = [plan.layouts[number].bytes for number in plan.inputs if isinstance(number, int)]
    steps = [step for step in plan.steps if isinstance(step, TorchStep) and step.operator in ALLOCATIONS]
    return max(1, sum(inputs) + sum(layout.bytes for step in steps for layout in step.layouts))


def packing_bytes(packing: LaunchPlan) -> int:
    """Return what the steps of a packing return, in bytes; 1 or more."""
    steps = [step for step in packing.steps if isinstance(step, TorchStep)]
    return max(1, sum(layout.bytes for step in steps for layout in step.layouts))


def _no_plan(folder: Path, error: Exception) -> ResultsError:
    told = first_line(plain(str(error)) or type(error).__name__, LONGEST)
    return ResultsError(f"no launch plan in {folder}: {told}", "`kernelwright plan --save-plan` writes one")


def read_constants(plan: LaunchPlan, described: Sequence[Message], path: Path, device: str) -> list[dict[int, Any]]:
    """Return the constants of each part of a plan by number. Raises `UnplannableCallError` where they do not fit it."""
    if len(described) != sum(len(part.constants) for part in plan.parts):
        raise UnplannableCallError("a plan without its constants")
    reader, left = Outputs(path), iter(described)
    return [_constants_of(part, reader, left, device) for part in plan.parts]


def _constants_of(part: LaunchPlan, reader: Outputs, left: Iterator[Message], device: str) -> dict[int, Any]:
    import torch

    found = {}
    for number in part.constants:
        layout, description = part.layouts.get(number), next(left)
        if layout is None or description["shape"] != list(layout.shape) or not description["stored"]:
            raise UnplannableCallError("a constant without memory of its own for every element")
        like = torch.empty(layout.shape, dtype=dtype_of(layout), device=device)
        found[number] = reader.next(description, like)
    return found


def not_a_plan(error: Exception) -> str:
    """Return what is said of a plan that is malformed."""
    return f"its plan is none: {type(error).__name__}: {first_line(str(error))}"
