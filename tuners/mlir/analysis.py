"""Analyses a module with IREE's bindings: its computation, and the operations that can be scheduled."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...core import MlirProblem, ProblemError
from ...core.files import read_text
from ...core.mlir_operation import Applied, Filled, Operation, Step, TensorType
from .bindings import load, parsed, symbol, walk
from .operations import NotSchedulableError, operation_of
from .regions import separate
from .remedies import remedy

_SIGNED = frozenset(f"arith.{name}" for name in ("mulf", "addf", "muli", "addi", "extf", "extsi", "sitofp")) | {
    "linalg.yield"
}
"""Operations of a product's body that NumPy can compute: others treat integers as unsigned, or round operands."""


def read_source(path: Path) -> str:
    """Return a file's text. Raises `ProblemError` if it cannot be read."""
    try:
        return read_text(path)
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "no text"
        raise ProblemError(f"cannot read {path}: {why}; give a file of MLIR text") from None


def analyse(source: str, name: str, function: str | None = None) -> MlirProblem:
    """Return the function of a module that has something to schedule as a problem.

    Raises `ProblemError` for text that is not MLIR, with its line; where there is nothing to schedule; where several
    functions could be meant and none is named; for dynamic shapes.
    """
    with parsed(source, name) as module:
        chosen = _choose(_functions(module), name, function)
        _require_static(walk(chosen), name)
        separated = separate(walk(chosen))
        body = walk(chosen)
        operations, remarks = _operations(body)
        if not operations:
            why = f" ({'; '.join(remarks)})" if remarks else ""
            raise ProblemError(f"{name}: function {symbol(chosen)} has nothing to schedule{why}; {remedy(body)}")
        inputs, results = _signature(chosen, name)
        steps, returns = _Steps(chosen, body, operations).all()
        return MlirProblem(
            id=f"mlir/{name}",
            name=name,
            source=source,
            prepared=str(module) if separated else source,
            function=symbol(chosen),
            inputs=inputs,
            results=results,
            operations=tuple(operations),
            remarks=tuple(remarks),
            steps=steps,
            returns=returns,
        )


def _functions(module: Any) -> list[Any]:
    """Return the functions that can be called from outside."""
    with_bodies = [
        node for node in walk(module.operation) if node.name in ("func.func", "util.func") and _has_body(node)
    ]
    return [item for item in with_bodies if not _private(item)]


def _has_body(function: Any) -> bool:
    return len(function.regions[0].blocks) > 0


def _private(function: Any) -> bool:
    return "sym_visibility" in function.attributes and function.attributes["sym_visibility"].value == "private"


def _choose(functions: Sequence[Any], name: str, wanted: str | None) -> Any:
    there = ", ".join(map(symbol, functions)) or "none"
    if wanted is not None:
        if found := [function for function in functions if symbol(function) == wanted.removeprefix("@")]:
            return found[0]
        raise ProblemError(f"{name} has no public function {wanted!r}; it has {there}")
    if len(functions) == 1:
        return functions[0]
    if not functions:
        raise ProblemError(f"{name} has no public function with a body; add one that returns its results")
    raise ProblemError(f"{name} has several functions, {there}; name one with `function`")


def _operations(body: Sequence[Any]) -> tuple[list[Operation], list[str]]:
    """Return the operations that can be scheduled, and a remark on each other linalg operation."""
    found: list[Operation] = []
    remarks = []
    for position, statement in enumerate(body):
        try:
            operation = operation_of(statement, position, len(found))
        except NotSchedulableError as reason:
            remarks.append(f"{statement.name} is not scheduled: {reason}")
            continue
        if operation is not None:
            found.append(operation)
    return found, remarks


def _require_static(body: Sequence[Any], name: str) -> None:
    ir, _ = load()
    for statement in body:
        for type_ in (value.type for value in (*statement.operands, *statement.results)):
            if isinstance(type_, ir.RankedTensorType) and not type_.has_static_shape:
                raise ProblemError(
                    f"{name}: {statement.name} has the dynamic shape {type_}; "
                    "write its sizes into the module, since tiles are chosen for sizes"
                )


def _signature(function: Any, name: str) -> tuple[tuple[TensorType, ...], tuple[TensorType, ...]]:
    type_ = function.attributes["function_type"].value
    inputs = tuple(_tensor(argument, f"{name}: argument {number}") for number, argument in enumerate(type_.inputs))
    return inputs, tuple(_tensor(result, f"{name}: result {number}") for number, result in enumerate(type_.results))


def _tensor(type_: Any, what: str) -> TensorType:
    ir, _ = load()
    if not isinstance(type_, ir.RankedTensorType) or not type_.has_static_shape:
        raise ProblemError(f"{what} is {type_}; write it as a tensor of static shape, such as tensor<128x256xf32>")
    return TensorType(tuple(type_.shape), str(type_.element_type))


class _Steps:
    """Follows a function's operations one by one, as far as NumPy can compute them."""

    def __init__(self, function: Any, body: Sequence[Any], operations: Sequence[Operation]) -> None:
        self._by_position = {operation.position: operation for operation in operations}
        self._body = list(enumerate(body))
        arguments = function.regions[0].blocks[0].arguments
        self._numbers: dict[Any, int] = {value: number for number, value in enumerate(arguments)}
        self._scalars: dict[Any, float] = {}
        self._inputs = len(arguments)
        self._steps: list[Step] = []
        self._straight = len(function.regions[0].blocks) == 1

    def all(self) -> tuple[tuple[Step, ...] | None, tuple[int, ...]]:
        """Return the steps and the numbers of the returned values; None for steps that NumPy does not know."""
        try:
            for position, operation in self._top_level():
                if operation.name in ("func.return", "util.return"):
                    return tuple(self._steps), tuple(self._numbers[value] for value in operation.operands)
                self._step(position, operation)
        except KeyError:  # a step that is not known, or a value that none has made
            pass
        return None, ()

    def _top_level(self) -> list[tuple[int, Any]]:
        return self._body if self._straight else []

    def _step(self, position: int, operation: Any) -> None:
        if position in self._by_position:
            if any(inner.name not in _SIGNED for inner in walk(operation)):
                raise KeyError(operation.name)
            lhs, rhs, start = (self._numbers[value] for value in operation.operands)
            self._add(operation, Applied(self._by_position[position], (lhs, rhs, start)))
        elif operation.name == "arith.constant":
            self._constant(operation)
        elif operation.name == "tensor.empty":
            self._add(operation, Filled(_tensor(operation.results[0].type, "an empty tensor"), 0.0))
        elif operation.name == "linalg.fill":
            value = self._scalars[operation.operands[0]]
            self._add(operation, Filled(_tensor(operation.results[0].type, "a filled tensor"), value))
        elif operation.name == "flow.return":
            self._numbers[operation.parent.results[0]] = self._numbers[operation.operands[0]]

    def _constant(self, operation: Any) -> None:
        ir, _ = load()
        value = operation.attributes["value"]
        if isinstance(value, ir.DenseElementsAttr) and value.is_splat:
            splat = float(value.get_splat_value().value)
            self._add(operation, Filled(_tensor(operation.results[0].type, "a constant"), splat))
        elif isinstance(value, ir.FloatAttr | ir.IntegerAttr):
            self._scalars[operation.results[0]] = float(value.value)

    def _add(self, operation: Any, step: Step) -> None:
        self._numbers[operation.results[0]] = self._inputs + len(self._steps)
        self._steps.append(step)
