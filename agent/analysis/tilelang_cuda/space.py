"""Keeps a rewritten file's SEARCH_SPACE and CONSTRAINTS in step with its constants."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from ....core import Value
from ....core.expressions import Expression
from ..change import Change
from ..edit import with_declared
from ..source import insert_before_definitions, names, statements, tree_and_names


def redeclared(change: Change, helpers: Sequence[str] = ()) -> cst.Module:
    """Return the edited module with a rule's parameters at their defaults, declared where the file declares a space.

    Constants that nothing reads any longer go. Constraints stay, but for those over a constant that is gone or one that
    the rule has a parameter for: the rule's own constraints say what that may be.
    """
    kernel, module, parameters = change.kernel, change.edited(), change.parameters
    before, _ = tree_and_names(kernel)
    for helper in helpers:
        module = insert_before_definitions(module, helper.lstrip())
    new = {parameter.name: parameter for parameter in parameters}
    body: list[cst.BaseStatement | cst.SimpleStatementLine] = []
    present: set[str] = set()
    declared = {name: tuple(values) for name, values in kernel.declared_values.items()}
    gone = {name for name in kernel.config if name not in new and _reads(before, name) and not _reads(module, name)}
    for statement in module.body:
        name = _assigned(statement)
        if name in gone:
            continue
        if name in new:
            present.add(name)
            statement = _with_value(statement, new[name].default)
        body.append(statement)
    module = module.with_changes(body=body)
    missing = "".join(
        f"{parameter.name} = {parameter.default!r}\n" for parameter in parameters if parameter.name not in present
    )
    if missing:
        module = _after_constants(module, missing)
    if not declared:
        return module
    values = {name: one for name, one in declared.items() if name not in gone | set(new)}
    kept = [
        constraint for constraint in kernel.declared_constraints if not Expression(constraint).names & (gone | set(new))
    ]
    values |= {parameter.name: parameter.values for parameter in parameters}
    return with_declared(module, values, [*kept, *change.constraints])


def _after_constants(module: cst.Module, text: str) -> cst.Module:
    """Insert constants after the last one before SEARCH_SPACE, or before the definitions."""
    for position, statement in enumerate(module.body):
        if _assigned(statement) == "SEARCH_SPACE":
            return module.with_changes(body=[*module.body[:position], *statements(text), *module.body[position:]])
    return insert_before_definitions(module, text)


def _reads(module: cst.Module, name: str) -> bool:
    return any(name in names(s) for s in module.body if _assigned(s) is None)


def _assigned(statement: cst.CSTNode) -> str | None:
    match statement:
        case cst.SimpleStatementLine(body=[cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=name))])]):
            return name
    return None


def _with_value(statement: cst.CSTNode, value: Value) -> cst.SimpleStatementLine:
    line = cst.ensure_type(statement, cst.SimpleStatementLine)
    assign = cst.ensure_type(line.body[0], cst.Assign)
    return line.with_changes(body=[assign.with_changes(value=cst.parse_expression(repr(value)))])
