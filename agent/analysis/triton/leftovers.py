"""Removes from a kernel file the parameters that nothing uses any more."""

from __future__ import annotations

import libcst as cst
import libcst.matchers as m

from ....core import PythonKernel
from ....core.expressions import Expression
from ..edit import Edit, edited, with_declared
from ..source import names


def without_unused(kernel: PythonKernel, module: cst.Module) -> cst.Module:
    """Return the module without declared parameters whose constant no function or class names.

    `kernel` is the one that the module was made from: its declarations, without theirs, stay.
    """
    used = {name for one in module.body if isinstance(one, cst.ClassDef | cst.FunctionDef) for name in names(one)}
    gone = {name for name in kernel.declared_values if name not in used}
    if not gone:
        return module
    constants = m.SimpleStatementLine([m.Assign([m.AssignTarget(m.OneOf(*(m.Name(name) for name in gone)))])])
    edits: dict[cst.CSTNode, Edit] = {
        one: lambda _: cst.RemoveFromParent() for one in module.body if m.matches(one, constants)
    }
    values = {name: one for name, one in kernel.declared_values.items() if name not in gone}
    constraints = [text for text in kernel.declared_constraints if not Expression(text).names & gone]
    return with_declared(edited(module, edits), values, constraints)
