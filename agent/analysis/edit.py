"""Changes a kernel file at nodes of its syntax tree; what no edit names stays byte for byte.

libcst builds new nodes in every pass, so a rule collects its edits, keyed by the nodes that it has read, and makes
them all at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import libcst as cst
import libcst.matchers as m

from ...core import Parameter, PythonKernel, Value
from ...core.expressions import Expression
from .search import find_all, outer_nodes
from .source import expression, names, statements

Edited = cst.CSTNode | cst.FlattenSentinel[cst.BaseStatement] | cst.RemovalSentinel
Edit = Callable[[cst.CSTNode], Edited]
"""From the node, with the edits inside of it made, to what stands in its place."""


def edited(module: cst.Module, edits: Mapping[cst.CSTNode, Edit]) -> cst.Module:
    """Return the module with every named node replaced, inner ones first; the others stay the objects they are."""
    around = outer_nodes(module, edits.keys())

    class Editor(cst.CSTTransformer):
        def on_visit(self, node: cst.CSTNode) -> bool:
            return node in around

        def on_leave(self, original_node: cst.CSTNode, updated_node: cst.CSTNode) -> Edited:  # type: ignore[override]
            edit = edits.get(original_node)
            return edit(updated_node) if edit else updated_node

    return module.visit(Editor())


def put(text: str) -> Edit:
    """Return an edit that puts an expression in the place of another."""
    return lambda _: expression(text)


def put_statements(text: str) -> Edit:
    """Return an edit that puts statements in the place of one; comments before it stay."""

    def replace(node: cst.CSTNode) -> Edited:
        new = parsed(text)
        lines = getattr(node, "leading_lines", ())
        return cst.FlattenSentinel([new[0].with_changes(leading_lines=lines), *new[1:]])

    return replace


def parsed(text: str) -> list[cst.BaseStatement]:
    """Parse statements, with a comment before the first, which a module would take for its header."""
    return statements(f"pass\n{text}")[1:]


def before(text: str) -> Edit:
    """Return an edit that puts statements before one."""
    return lambda node: cst.FlattenSentinel([*parsed(text), _statement(node)])


def after(text: str) -> Edit:
    """Return an edit that puts statements after one."""
    return lambda node: cst.FlattenSentinel([_statement(node), *parsed(text)])


def _statement(node: cst.CSTNode) -> cst.BaseStatement:
    assert isinstance(node, cst.BaseStatement)
    return node


def with_parameters(names: Sequence[str], constexpr: bool = True) -> Edit:
    """Return an edit of a FunctionDef that adds parameters at its end, `tl.constexpr` or plain.

    After one with a default they have one too, as Python asks; every call gives them.
    """

    def add(node: cst.CSTNode) -> cst.CSTNode:
        function = cst.ensure_type(node, cst.FunctionDef)
        annotation = cst.Annotation(expression("tl.constexpr")) if constexpr else None
        params = [parameter.with_changes(comma=cst.MaybeSentinel.DEFAULT) for parameter in function.params.params]
        default = cst.Name("None") if params and params[-1].default is not None else None
        new = [cst.Param(cst.Name(name), annotation, default=default) for name in names]
        return function.with_changes(params=function.params.with_changes(params=[*params, *new]))

    return add


def keyword_argument(name: str, text: str) -> cst.Arg:
    """Return the argument `name=text` of a call."""
    equal = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
    return cst.Arg(keyword=cst.Name(name), value=expression(text), equal=equal)


def with_arguments(values: Mapping[str, str]) -> Edit:
    """Return an edit of a Call that adds keyword arguments at its end."""

    def add(node: cst.CSTNode) -> cst.CSTNode:
        call = cst.ensure_type(node, cst.Call)
        return call.with_changes(args=appended(call.args, [keyword_argument(*item) for item in values.items()]))

    return add


def appended(args: Sequence[cst.Arg], new: Sequence[cst.Arg]) -> list[cst.Arg]:
    """Return arguments with others behind them. A comment behind the last old one stays where it is."""
    if not args or not new:
        return [*args, *new]
    last = args[-1]
    if not (isinstance(last.comma, cst.Comma) and find_all(last.comma, m.Comment())):
        last = last.with_changes(comma=cst.MaybeSentinel.DEFAULT)
    return [*args[:-1], last, *new]


def both(first: Edit, second: Edit) -> Edit:
    """Return an edit that makes two changes to one node: the second to what the first leaves in the node's place.

    Where the first puts statements around the node, the second changes the node between them.
    """

    def make(node: cst.CSTNode) -> Edited:
        changed = first(node)
        if isinstance(changed, cst.FlattenSentinel):
            lines = list(changed)
            at = next((i for i, one in enumerate(lines) if one is node), 0)
            middle = second(lines[at])
            assert not isinstance(middle, cst.RemovalSentinel)
            inner = list(middle) if isinstance(middle, cst.FlattenSentinel) else [_statement(middle)]
            return cst.FlattenSentinel([*lines[:at], *inner, *lines[at + 1 :]])
        assert isinstance(changed, cst.CSTNode), "what is removed cannot be changed again"
        return second(changed)

    return make


def with_declared(module: cst.Module, values: Mapping[str, Sequence[Value]], constraints: Sequence[str]) -> cst.Module:
    """Return the module with these as its SEARCH_SPACE and CONSTRAINTS, in the place of those that it declares."""
    texts = {
        "SEARCH_SPACE": "{\n" + "".join(f'    "{name}": {list(one)!r},\n' for name, one in values.items()) + "}",
        "CONSTRAINTS": "[\n" + "".join(f"    {constraint!r},\n" for constraint in constraints) + "]",
    }
    edits: dict[cst.CSTNode, Edit] = {}
    for statement in module.body:
        name = _assigned(statement)
        if name in texts:
            edits[statement] = put_statements(f"{name} = {texts.pop(name)}\n")
    module = edited(module, edits)
    missing = "".join(f"{name} = {text}\n" for name, text in texts.items() if text not in ("{\n}", "[\n]"))
    if not missing:
        return module
    position = next(
        (i for i, s in enumerate(module.body) if isinstance(s, cst.ClassDef | cst.FunctionDef)), len(module.body)
    )
    return module.with_changes(body=[*module.body[:position], *statements(missing), *module.body[position:]])


def declaring(
    kernel: PythonKernel, module: cst.Module, parameters: Sequence[Parameter], constraints: Sequence[str] = ()
) -> cst.Module:
    """Return the rewritten module of a kernel with a rule's parameters in its SEARCH_SPACE, if it has one.

    A file that declares its parameters is searched over these alone, in later runs too.
    """
    if not kernel.declared_values or not (parameters or constraints):
        return module
    values = dict(kernel.declared_values) | {parameter.name: parameter.values for parameter in parameters}
    return with_declared(module, values, [*kernel.declared_constraints, *constraints])


def _assigned(statement: cst.CSTNode) -> str | None:
    """Return the name that a statement of a module assigns."""
    if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) != 1:
        return None
    match statement.body[0]:
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=name))]):
            return name
        case cst.AnnAssign(target=cst.Name(value=name)):
            return name
    return None


def without_unused(kernel: PythonKernel, module: cst.Module) -> cst.Module:
    """Return the module without declared parameters whose constant no function or class names.

    `kernel` is the one that the module was made from: its declarations, without theirs, stay.
    """
    used = {
        name
        for statement in module.body
        if isinstance(statement, cst.ClassDef | cst.FunctionDef)
        for name in names(statement)
    }
    gone = {name for name in kernel.declared_values if name not in used}
    if not gone:
        return module
    constants = m.SimpleStatementLine([m.Assign([m.AssignTarget(m.OneOf(*(m.Name(name) for name in gone)))])])
    edits: dict[cst.CSTNode, Edit] = {
        statement: lambda _: cst.RemoveFromParent() for statement in module.body if m.matches(statement, constants)
    }
    values = {name: one for name, one in kernel.declared_values.items() if name not in gone}
    constraints = [text for text in kernel.declared_constraints if not Expression(text).names & gone]
    return with_declared(edited(module, edits), values, constraints)
