"""The launch plans that a reference worker executes, beside the reference, on the same inputs and weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ...core.launch_plan import LaunchPlan
from ...core.text import first_line
from ..workers.channel import Message
from .executor import PlanExecutor
from .saved import read_constants
from .values import UnplannableCall, weights_of


class ReplaySession:
    """Loaded plans by number. `folder` keeps their compiled code."""

    def __init__(self, device: str, folder: Path) -> None:
        self._device = device
        self._folder = folder
        self._plans: dict[int, PlanExecutor] = {}

    def load(self, number: int, text: str, described: Sequence[Message], path: Path) -> str | None:
        """Check and compile a plan; return why it cannot be replayed, or None."""
        self._folder.mkdir(exist_ok=True)
        try:
            plan = LaunchPlan.model_validate_json(text)
            constants = read_constants(plan, described, path, self._device)
            executor = PlanExecutor(plan, constants, self._folder, self._device)
        except UnplannableCall as reason:
            return str(reason)
        except Exception as error:  # what another process wrote may be anything
            return _no_plan(error)
        self._plans[number] = executor
        return None

    def misfit(self, number: int, inputs: Sequence[Any], model: Any) -> str | None:
        """Return why a plan cannot be replayed with such inputs and such a model, or None."""
        try:
            self._plans[number].require_fit(inputs, weights_of(model))
            return None
        except UnplannableCall as reason:
            return str(reason)
        except Exception as error:  # what another process wrote may be anything
            return _no_plan(error)

    def call(self, number: int, model: Any) -> Callable[..., Any]:
        """Return a plan as a function of the inputs, with the model's weights."""
        executor, weights = self._plans[number], weights_of(model)
        return lambda *inputs: executor(inputs, weights)

    def renew(self, number: int, needed: Sequence[Any] = ()) -> None:
        """Undo what the last call of a plan left in memory (`PlanExecutor.renew`)."""
        self._plans[number].renew(needed)

    def constants(self, number: int) -> list[Any]:
        """Return the tensors that a plan keeps from call to call."""
        return list(self._plans[number].constants.values())

    def clear(self) -> None:
        """Forget all plans."""
        self._plans.clear()


def _no_plan(error: Exception) -> str:
    return f"its plan is none: {type(error).__name__}: {first_line(str(error))}"
