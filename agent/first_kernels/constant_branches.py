"""Folds branches of a template's code that its own constants decide."""

from __future__ import annotations

import libcst as cst
import libcst.matchers as m

_TRUTHS = m.Name("True") | m.Name("False")
_CONSTEXPR = m.Annotation(m.Attribute(m.Name("tl"), m.Name("constexpr")))
_DOWN = m.Call(func=m.Name("range"), args=[m.Arg(m.Name()), m.Arg(m.Integer("0")), m.Arg(m.UnaryOperation(m.Minus()))])


def fold_constexpr_branches(module: cst.Module) -> cst.Module:
    """Return functions without branches on a `tl.constexpr` that is True or False, and with loops that count up.

    A loop from a size down to zero whose variable nothing reads has as many steps from zero up to the size.
    """
    changed = module.visit(_Branches())
    return changed.visit(_Loops())


class _Branches(cst.CSTTransformer):
    def __init__(self) -> None:
        self._truths: dict[str, bool] = {}

    def visit_AnnAssign(self, node: cst.AnnAssign) -> None:
        if m.matches(node, m.AnnAssign(target=m.Name(), annotation=_CONSTEXPR, value=_TRUTHS)):
            value = cst.ensure_type(node.value, cst.Name)
            self._truths[cst.ensure_type(node.target, cst.Name).value] = value.value == "True"

    def leave_If(
        self, original_node: cst.If, updated_node: cst.If
    ) -> cst.BaseStatement | cst.FlattenSentinel[cst.BaseStatement] | cst.RemovalSentinel:
        test, otherwise = updated_node.test, updated_node.orelse
        if not isinstance(test, cst.Name) or test.value not in self._truths or isinstance(otherwise, cst.If):
            return updated_node
        chosen = updated_node.body if self._truths[test.value] else otherwise.body if otherwise else None
        if chosen is None:
            return cst.RemoveFromParent()
        return cst.FlattenSentinel(list(chosen.body)) if isinstance(chosen, cst.IndentedBlock) else updated_node


class _Loops(cst.CSTTransformer):
    def leave_For(self, original_node: cst.For, updated_node: cst.For) -> cst.For:
        down = updated_node.iter
        if not m.matches(down, _DOWN) or m.findall(updated_node.body, m.Name(_name(updated_node.target))):
            return updated_node
        size, zero, step = cst.ensure_type(down, cst.Call).args
        back = cst.ensure_type(step.value, cst.UnaryOperation).expression
        up = [zero.with_changes(value=cst.Integer("0")), size, step.with_changes(value=back)]
        return updated_node.with_changes(iter=cst.ensure_type(down, cst.Call).with_changes(args=up))


def _name(target: cst.BaseExpression) -> str:
    return target.value if isinstance(target, cst.Name) else ""
