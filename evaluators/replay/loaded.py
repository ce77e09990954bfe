"""A launch plan of a candidate, checked and compiled; or why it cannot be executed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ...core.launch_plan import LaunchPlan
from ...core.text import first_line
from ..workers.channel import Message
from .executor import PlanExecutor
from .saved import read_constants
from .values import UnplannableCall
from .walls import Walls


def loaded_plan(
    text: str, described: Sequence[Message], path: Path, folder: Path, device: str, walls: Walls | None = None
) -> PlanExecutor | str:
    """Check and compile a plan, with its constants from the file at `path`; return why it cannot be executed."""
    folder.mkdir(exist_ok=True)
    try:
        plan = LaunchPlan.model_validate_json(text)
        call, *packing = read_constants(plan, described, path, device)
        packs = PlanExecutor(plan.packing, packing[0], folder, device, walls=walls) if plan.packing else None
        return PlanExecutor(plan, call, folder, device, packs, walls)
    except UnplannableCall as reason:
        return str(reason)
    except Exception as error:  # what another process wrote may be anything
        return not_a_plan(error)


def not_a_plan(error: Exception) -> str:
    """Return what is said of a plan that is malformed."""
    return f"its plan is none: {type(error).__name__}: {first_line(str(error))}"
