"""Finds nodes in a concrete syntax tree."""

from __future__ import annotations

import functools
from collections.abc import Collection

import libcst as cst
import libcst.matchers as m

NODES, TREES = 1 << 17, 1 << 10
"""Nodes whose children are remembered, those of a few dozen files; and trees of which all nodes are."""


def find_all(tree: cst.CSTNode, matcher: m.BaseMatcherNode) -> list[cst.CSTNode]:
    """Return what matches, in the order of the source, as `libcst.matchers.findall` does.

    That one visits the tree as a transformer would and takes ten times as long, which for all rules of a turn is
    seconds.
    """
    kinds = _concrete(_kinds(matcher))
    return [node for node in _nodes(tree) if type(node) in kinds and m.matches(node, matcher)]


def contains(outer: cst.CSTNode, inner: cst.CSTNode) -> bool:
    """Return whether a node is another, or stands inside of it."""
    return inner in _members(outer)


def outer_nodes(tree: cst.CSTNode, inner: Collection[cst.CSTNode]) -> set[cst.CSTNode]:
    """Return the nodes of a tree inside of which some others stand."""
    found: set[cst.CSTNode] = set()
    seen = {id(node) for node in inner}  # a node's own hash is a call of Python
    for node in reversed(_nodes(tree)):  # inner ones before outer ones
        if not seen.isdisjoint(map(id, _children(node))):
            found.add(node)
            seen.add(id(node))
    return found


def _kinds(matcher: m.BaseMatcherNode) -> tuple[type[cst.CSTNode], ...]:
    """Return the types of nodes that can match."""
    options = matcher.options if isinstance(matcher, m.OneOf) else [matcher]
    return tuple(getattr(cst, type(option).__name__, cst.CSTNode) for option in options)


@functools.cache
def _concrete(kinds: tuple[type[cst.CSTNode], ...]) -> frozenset[type[cst.CSTNode]]:
    """Return the types with all that inherit from them: nodes are abstract classes, and `isinstance` asks ten times as
    long."""
    inner = [subclass for kind in kinds for subclass in kind.__subclasses__()]
    return frozenset(kinds) | _concrete(tuple(inner)) if inner else frozenset(kinds)


@functools.lru_cache(maxsize=TREES)
def _nodes(tree: cst.CSTNode) -> tuple[cst.CSTNode, ...]:
    found, left = [], [tree]
    while left:
        found.append(left.pop())
        left.extend(reversed(_children(found[-1])))
    return tuple(found)


@functools.lru_cache(maxsize=TREES)
def _members(tree: cst.CSTNode) -> frozenset[cst.CSTNode]:
    return frozenset(_nodes(tree))


@functools.lru_cache(maxsize=NODES)
def _children(node: cst.CSTNode) -> tuple[cst.CSTNode, ...]:
    return tuple(node.children)
