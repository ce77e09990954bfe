"""A launch plan on disk: `plan.json` and the constants that it names. Nothing in it is Python."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...core.errors import ResultsError
from ...core.launch_plan import LaunchPlan
from ..workers.channel import Message
from ..workers.tensor_ipc import Outputs
from .executor import PlanExecutor
from .values import UnplannableCall, dtype_of

PLAN, CONSTANTS, DESCRIBED = "plan.json", "constants.bin", "constants.json"


def save_plan(plan: LaunchPlan, constants: Sequence[Message], path: Path, folder: Path) -> None:
    """Write a plan, with its constants from the file at `path`; each kernel's code is also written as a file."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / PLAN).write_text(plan.model_dump_json(indent=1) + "\n")
        (folder / DESCRIBED).write_text(json.dumps(list(constants)) + "\n")
        if constants:
            shutil.copyfile(path, folder / CONSTANTS)
        for code in plan.codes.values():
            (folder / f"{code.name}.{code.digest[:8]}.{code.kind}").write_text(code.text)
    except OSError as error:
        raise ResultsError(f"cannot write to {folder}: {error.strerror}", "choose another folder") from None


def load_plan(folder: Path, device: str = "cpu") -> PlanExecutor:
    """Check and compile a saved plan; call the result with a list of inputs and the weights by name.

    Raises `ResultsError` for a folder without a plan, or with one that cannot be executed here.
    """
    try:
        plan = LaunchPlan.model_validate_json((folder / PLAN).read_text())
        described = json.loads((folder / DESCRIBED).read_text())
        constants = read_constants(plan, described, folder / CONSTANTS, device)
        with tempfile.TemporaryDirectory(prefix="kernelwright-plan-") as built:
            # Not beside the plan: a library that already lies there would be taken for ours.
            return PlanExecutor(plan, constants, Path(built), device)
    except (OSError, ValueError) as error:
        raise ResultsError(
            f"no launch plan in {folder}: {error}", "`kernelwright plan --save-plan` writes one"
        ) from None
    except UnplannableCall as reason:
        raise ResultsError(f"the plan in {folder} cannot be executed: {reason}") from None


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
