"""Finds and exchanges the nodes of a concrete syntax tree.

libcst builds new nodes in every pass, so edits are collected, keyed by the nodes that were read, and made all at once.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar, cast, overload

import libcst as cst
import libcst.matchers as m

S = TypeVar("S", bound=cst.CSTNode)
Statement = cst.BaseStatement
Expression = cst.BaseExpression
Edit = Callable[[Any], Any]
"""A function from the node, with the edits inside of it made, to its replacement."""
NODES, TREES = 1 << 17, 1 << 10
"""Nodes whose children are remembered, those of a few dozen files; and trees of which all nodes are."""


@overload
def find_all(tree: cst.CSTNode, kind: type[S], matcher: m.BaseMatcherNode | None = None) -> list[S]: ...
@overload
def find_all(tree: cst.CSTNode, kind: m.BaseMatcherNode) -> list[Any]: ...
def find_all(tree: cst.CSTNode, kind: Any, matcher: m.BaseMatcherNode | None = None) -> list[Any]:
    """Return the nodes of a kind that match, or those that match, in the order of the source.

    `libcst.matchers.findall` visits the tree as a transformer would and takes ten times as long, which for all rules of
    a turn is seconds.
    """
    if isinstance(kind, m.BaseMatcherNode):
        options = {type(option).__name__ for option in (kind.options if isinstance(kind, m.OneOf) else [kind])}
        return [node for node in nodes_in(tree) if type(node).__name__ in options and m.matches(node, kind)]
    kinds = _concrete((kind,))
    return [node for node in nodes_in(tree) if type(node) in kinds and (matcher is None or m.matches(node, matcher))]


def calls_in(tree: cst.CSTNode, *functions: str) -> list[cst.Call]:
    """Return the calls of functions in the order of the source: 'tl.load', 'tl.atomic_*', '.to' of anything."""
    wanted = _wanted(functions)
    return [call for call in find_all(tree, cst.Call) if wanted.fullmatch(_dotted(call.func))]


@functools.cache
def _wanted(functions: tuple[str, ...]) -> re.Pattern[str]:
    texts = (re.escape(function).replace(r"\*", r"\w*") for function in functions)
    return re.compile("|".join(r"[\w.]*" * text.startswith(r"\.") + text for text in texts))


def _dotted(node: cst.CSTNode) -> str:
    if isinstance(node, cst.Attribute):
        return f"{_dotted(node.value)}.{node.attr.value}"
    return node.value if isinstance(node, cst.Name) else ""


def contains(outer: cst.CSTNode, inner: cst.CSTNode) -> bool:
    """Return whether a node is another node or inside of it."""
    return inner in _members(outer)


@functools.cache
def _concrete(kinds: tuple[type[cst.CSTNode], ...]) -> frozenset[type[cst.CSTNode]]:
    """Return the types with all that inherit from them: nodes are abstract classes, and `isinstance` asks ten times as
    long."""
    inner = [subclass for kind in kinds for subclass in kind.__subclasses__()]
    return frozenset(kinds) | _concrete(tuple(inner)) if inner else frozenset(kinds)


@functools.lru_cache(maxsize=TREES)
def nodes_in(tree: cst.CSTNode) -> tuple[cst.CSTNode, ...]:
    """Return a node and all nodes inside of it, in the order of the source."""
    found, left = [], [tree]
    while left:
        found.append(left.pop())
        left.extend(reversed(_children(found[-1])))
    return tuple(found)


@functools.lru_cache(maxsize=TREES)
def _members(tree: cst.CSTNode) -> frozenset[cst.CSTNode]:
    return frozenset(nodes_in(tree))


@functools.lru_cache(maxsize=NODES)
def _children(node: cst.CSTNode) -> tuple[cst.CSTNode, ...]:
    """Return the children of a node. `node.children` rebuilds the node, which takes four times as long."""
    kind = type(node)
    if kind not in _ATTRIBUTES:
        _ATTRIBUTES[kind] = _attributes(node)
    found: list[cst.CSTNode] = []
    for name in _ATTRIBUTES[kind]:
        value = getattr(node, name)
        if type(value) in (list, tuple):
            found.extend(value)
        elif type(value) not in _NO_NODES:
            found.append(value)
    return tuple(found)


_ATTRIBUTES: dict[type[cst.CSTNode], tuple[str, ...]] = {}
"""The attributes of nodes that hold others, in the order of the source: the same for all nodes of a type."""
_NO_NODES = (type(None), str, bool, cst.MaybeSentinel)


def _attributes(node: cst.CSTNode) -> tuple[str, ...]:
    found: list[str] = []

    class Visitor(cst.CSTVisitor):
        def on_visit(self, node: cst.CSTNode) -> bool:
            return False

        def on_visit_attribute(self, node: cst.CSTNode, attribute: str) -> None:
            found.append(attribute)

    node._visit_and_replace_children(Visitor())
    if isinstance(node, cst.FormattedStringExpression):  # visited only if it exists
        found.append("format_spec")
    return tuple(dict.fromkeys(found))


def plain_names(tree: cst.CSTNode) -> list[cst.Name]:
    """Return every plain name in a node; of `a.b`, only `a`, and no keyword of an argument."""
    nodes = nodes_in(tree)
    # `isinstance` takes ten times as long, since nodes are abstract classes.
    other = {id(node.attr) for node in nodes if type(node) is cst.Attribute}
    other |= {id(node.keyword) for node in nodes if type(node) is cst.Arg}
    return [node for node in nodes if type(node) is cst.Name and id(node) not in other]


def named(tree: cst.CSTNode, name: str) -> list[cst.Name]:
    """Return every place of a name in a node, also as an attribute or as the keyword of an argument."""
    return [node for node in find_all(tree, cst.Name) if node.value == name]


def edited(tree: S, edits: Mapping[cst.CSTNode, Edit]) -> S:
    """Return a tree with every named node replaced, inner ones first; the others stay the objects they are."""
    around = _outer_nodes(tree, edits.keys())

    class Editor(cst.CSTTransformer):
        def on_visit(self, node: cst.CSTNode) -> bool:
            return node in around

        def on_leave(self, original_node: cst.CSTNode, updated_node: cst.CSTNode) -> Any:
            edit = edits.get(original_node)
            return edit(updated_node) if edit else updated_node

    return cast(S, tree.visit(Editor()))


def _outer_nodes(tree: cst.CSTNode, inner: Collection[cst.CSTNode]) -> set[cst.CSTNode]:
    found: set[cst.CSTNode] = set()
    seen = {id(node) for node in inner}  # a node's own hash is a call of Python
    for node in reversed(nodes_in(tree)):  # inner ones before outer ones
        if not seen.isdisjoint(map(id, _children(node))):
            found.add(node)
            seen.add(id(node))
    return found


def block_of(node: Any) -> list[Statement]:
    """Return the statements of a function, a loop or another node with a block."""
    return [statement for statement in node.body.body if isinstance(statement, Statement)]


def body_of(node: Any) -> list[cst.BaseStatement]:
    """Return the statements of a block, without a documentation string."""
    return block_of(node)[node.get_docstring() is not None :] if isinstance(node, cst.FunctionDef) else block_of(node)


def with_block(node: S, body: Sequence[Statement]) -> S:
    """Return a function, a loop or another node with other statements in its block."""
    return node.with_deep_changes(cast(Any, node).body, body=list(body))


def only_line(node: cst.CSTNode | None) -> cst.BaseSmallStatement | None:
    """Return the simple statement of a line that has exactly one; otherwise None."""
    return node.body[0] if isinstance(node, cst.SimpleStatementLine) and len(node.body) == 1 else None


def assigned_name(statement: cst.CSTNode | None) -> str | None:
    """Return the name that a line assigns, alone; None for any other line."""
    match only_line(statement):
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=name))]):
            return name
        case cst.AnnAssign(target=cst.Name(value=name)):
            return name
    return None


def target_of(node: Any) -> Expression:
    """Return the target of an assignment of any kind; the first of several."""
    return cast(Expression, (node.targets[0] if isinstance(node, cst.Assign) else node).target)


def assignment(node: cst.CSTNode | None) -> tuple[Expression, str, Expression] | None:
    """Return target, '=' or '+=', and value of a statement that is one assignment, else None."""
    match only_line(node):
        case cst.Assign(targets=[cst.AssignTarget(target=target)], value=value):
            return target, "=", value
        case cst.AugAssign(target=target, operator=cst.AddAssign(), value=value):
            return target, "+=", value
    return None


def assigned_in(node: cst.CSTNode) -> set[str]:
    """Return the names that a statement assigns, including those in its blocks and its loops' variables."""
    kinds = m.AssignTarget() | m.AnnAssign() | m.AugAssign() | m.For()
    return {name.value for assignment in find_all(node, kinds) for name in plain_names(assignment.target)}


def plain_targets(*nodes: cst.CSTNode) -> set[str]:
    """Return the plain names that nodes assign."""
    targets = [assignment.target for node in nodes for assignment in find_all(node, cst.AssignTarget)]
    return {target.value for target in targets if isinstance(target, cst.Name)}
