"""Checks of a launch plan that another process wrote, before anything of it is compiled or executed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core.launch_plan import LaunchPlan, ParallelStep, TorchStep
from .values import UnplannableCallError, numbers_in


def check_references(plan: LaunchPlan) -> None:
    """Raise `UnplannableCallError` unless tensors are made once, before their use, and launches fit their code."""
    if not all(isinstance(given, int) or (isinstance(given, dict) and [*given] == ["value"]) for given in plan.inputs):
        raise UnplannableCallError("an input that is neither a tensor nor a value")
    numbers = [*(value for value in plan.inputs if isinstance(value, int)), *plan.weights.values(), *plan.constants]
    numbers += plan.packed
    known = {*numbers}
    if len(known) != len(numbers) or not known <= plan.layouts.keys():
        raise UnplannableCallError("inputs, weights and constants without a number and a layout of their own")
    packing = plan.packing
    if len(plan.packed) != (len(packing.outputs) if packing else 0) or (
        packing and (packing.inputs or packing.packing)
    ):
        raise UnplannableCallError("what packs its weights is not a plan that makes tensors of weights alone")
    for step in plan.steps:
        if isinstance(step, TorchStep):
            _require_known(numbers_in([step.args, list(step.kwargs.values())]), known, step.operator)
            if len({*known, *step.results}) < len(known) + len(step.results):
                raise UnplannableCallError(f"{step.operator} gives a tensor a number that another one has")
            known |= set(step.results)
            continue
        for launch in step.launches if isinstance(step, ParallelStep) else (step,):
            code = plan.codes.get(launch.code)
            if code is None or code.digest != launch.code or len(code.parameters) != len(launch.arguments):
                raise UnplannableCallError("a launch that does not fit its kernel")
            _require_known(numbers_in(launch.arguments), known, code.name)
            for parameter, form in zip(code.parameters, launch.arguments, strict=True):
                if not fits(parameter, form):
                    raise UnplannableCallError(f"{code.name}: {form!r} for a parameter of type {parameter}")
    _require_known(plan.outputs, known, "the result")


def fits(parameter: str, form: Any) -> bool:
    """Return whether a launch may have this JSON form for a kernel's parameter of this type."""
    if parameter.startswith("tensordesc"):
        return isinstance(form, dict) and "descriptor" in form and bool(numbers_in(form))
    if parameter in ("pointer", "handle") or parameter.startswith("*"):
        return isinstance(form, dict) and "tensor" in form and bool(numbers_in(form))
    return isinstance(form, bool | int | float) or (isinstance(form, dict) and [*form] == ["float"])


def _require_known(numbers: Sequence[int], known: set[int], where: str) -> None:
    if not set(numbers) <= known:
        raise UnplannableCallError(f"{where} uses a tensor that no step made")
