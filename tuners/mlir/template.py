"""Turns a module into a kernel: IREE's bindings attach schedules with slots for the parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...core import Config, KernelError, MlirKernel, MlirProblem, Slot, Target
from ...core.languages.mlir import MLIR
from .bindings import function_named, load, parsed, walk
from .space import Schedule

_ATTRIBUTE = "compilation_info"


def kernel_of(problem: MlirProblem, target: Target, schedules: Sequence[Schedule]) -> MlirKernel:
    """Return the module with a slot at each scheduled operation.

    Raises `KernelError` if IREE, in another version, does not know an attribute of a schedule.
    """
    for scheduled in schedules:
        _require_known(Slot(scheduled.info).filled(scheduled.first[0]), scheduled)
    values = {name: choices for schedule in schedules for name, choices in schedule.values.items()}
    likely = [{name: v for schedule in schedules for name, v in schedule.first[min(i, len(schedule.first) - 1)].items()}
              for i in range(max((len(schedule.first) for schedule in schedules), default=0))]  # fmt: skip
    return MlirKernel(
        MLIR,
        target,
        problem.source,
        problem.name,
        pieces=_pieces(problem, schedules),
        values=values,
        constraints=tuple(text for schedule in schedules for text in schedule.constraints),
        first=tuple(map(Config, likely)),
        plain=problem.source,
    )


def attached(problem: MlirProblem, infos: Mapping[int, str]) -> str:
    """Return the module's text with these attributes, in MLIR, at the operations of these positions."""
    with parsed(problem.prepared, problem.name) as module:
        ir, _ = load()
        body = walk(function_named(module, problem.function))
        for position, info in infos.items():
            body[position].attributes[_ATTRIBUTE] = ir.Attribute.parse(info)
        return str(module)


def printed(source: str, name: str) -> str:
    """Return a module's text as IREE prints it: the attributes' parts have names at its head."""
    with parsed(source, name) as module:
        return str(module)


def _require_known(info: str, schedule: Schedule) -> None:
    ir, _ = load()
    with ir.Context():
        try:
            ir.Attribute.parse(info)
        except ir.MLIRError as error:
            why = error.error_diagnostics[0].message if error.error_diagnostics else error
            raise KernelError(
                f"this version of IREE does not know the schedule of {schedule.operation.name}: {why}; install 3.13"
            ) from None


def _pieces(problem: MlirProblem, schedules: Sequence[Schedule]) -> tuple[str | Slot, ...]:
    """Return the module's text, with a slot where the attribute of each scheduled operation stands.

    A unique mark is attached to each operation, so that the printer shows its place.
    """
    marks = {schedule.operation.position: f'"{problem.digest}:{schedule.operation.position}"' for schedule in schedules}
    rest = attached(problem, marks)
    pieces: list[str | Slot] = []
    for scheduled in schedules:
        entry = f"{_ATTRIBUTE} = {marks[scheduled.operation.position]}"
        # The comma belongs to the entry, so that it disappears if nothing is bound.
        before, found, after = rest.partition(f"{entry}, ")
        if not found:
            before, _, after = rest.partition(entry)
        pieces += [before, Slot(f"{_ATTRIBUTE} = {scheduled.info}{', ' if found else ''}")]
        rest = after
    return (*pieces, rest)
