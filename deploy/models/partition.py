"""Parts a graph of ATen operators, as AOTAutograd gives it to Inductor, into regions: products with what follows.

Every value has a level: the largest number of anchors (products, attention, convolutions, scans ...) on a path to it.
A region is what is connected within a level. So no path leaves a region and comes back: levels never fall along a
path, and what has the same level and is connected is in the same region. An attention that is written out, two
batched products with a row's maximum between them, is one region.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import Graph, Node


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_VIEWS = _words(
    "reshape view _unsafe_view permute transpose t expand squeeze unsqueeze select slice split split_with_sizes "
    "unbind alias detach diagonal"
)
"""Operators that arrange elements: they belong to the regions that read them."""
_CREATIONS = _words("full arange iota scalar_tensor")
"""Operators without operands, which also belong to the regions that read them."""
_FOLLOWING = _words(
    "sum mean amax amin var var_mean any all argmax argmin prod _softmax _log_softmax where clone copy _to_copy cat "
    "stack embedding gather index index_select select_scatter slice_scatter constant_pad_nd full_like zeros_like "
    "ones_like convert_element_type flip roll fma native_layer_norm logsumexp"
)
"""Operators that follow an anchor in its region, in addition to those that torch marks as element-wise."""
_BATCHED = frozenset({"bmm", "baddbmm"})
_MAXIMA = frozenset({"amax", "_softmax"})
_UNSET = _words("empty empty_strided new_empty new_empty_strided empty_like as_strided")
"""Operators whose results depend on more than their operands' values."""
_LEFT_OUT = ("nondeterministic_seeded", "dynamic_output_shape", "data_dependent_output")


@dataclass(eq=False)
class NodeGroup:
    """The nodes of one region, in the graph's order."""

    nodes: list[Node] = field(default_factory=list)

    def outputs(self) -> list[Node]:
        """Return the values that are read outside, directly or through views, in the graph's order."""
        own = set(self.nodes)
        return [node for node in self.nodes if any(user not in own for user in readers(node))]


def regions_of(graph: Graph) -> list[NodeGroup]:
    """Return the regions of a graph, in the order of their first nodes.

    In none are: operators of random numbers, those that write to their arguments, custom operators, sizes that are
    symbols or depend on values.
    """
    levels: dict[Node, int] = {}
    group_of: dict[Node, NodeGroup] = {}
    for node in graph.nodes:
        before = max((levels[item] for item in node.all_input_nodes), default=0)
        kind = _kind(node)
        levels[node] = before + (kind in ("anchor", "left out"))
        if kind not in ("anchor", "following"):
            continue
        found = NodeGroup([node])
        group_of[node] = found
        for operand in {base_of(item): None for item in node.all_input_nodes}:
            other = group_of.get(operand)
            if other is not None and levels[operand] == levels[node] and other is not found:
                found = _joined(group_of, other, found)
    for group in dict.fromkeys(group_of.values()):
        if group_of[group.nodes[0]] is group:  # otherwise another region has its nodes by now
            _join_attention(group, group_of)
    order = {node: place for place, node in enumerate(graph.nodes)}
    groups = list(dict.fromkeys(group_of.values()))
    for group in groups:
        group.nodes.sort(key=order.__getitem__)
    return sorted(groups, key=lambda group: order[group.nodes[0]])


def sizes_that_change(graph: Graph) -> str:
    """Return a note on a graph some of whose sizes are symbols; '' if all are numbers."""
    given = [node.meta.get("val") for node in graph.nodes if node.op == "placeholder"]
    symbols = [item for item in given if isinstance(item, torch.SymInt | torch.SymFloat | torch.SymBool)]
    count = sum(isinstance(item, torch.Tensor) and not item.is_sparse and has_symbols(item) for item in given)
    if not (symbols or count):
        return ""
    return (
        f"{count} inputs of a graph have sizes that change, so what follows from them is left to Inductor; "
        "torch.compile(dynamic=False) compiles each size by itself"
    )


def base_of(node: Node) -> Node:
    """Return the value that views arrange."""
    while is_view(node):
        node = node.all_input_nodes[0]
    return node


def readers(node: Node) -> Iterator[Node]:
    """Yield what reads a value, directly or through views."""
    for user in node.users:
        if is_view(user):
            yield from readers(user)
        else:
            yield user


def is_view(node: Node) -> bool:
    """Return whether a node only arranges elements of one operand."""
    if node.target is operator.getitem:
        return is_view(node.all_input_nodes[0])
    return node.op == "call_function" and _name(node) in _VIEWS and not _symbolic(node)


def is_creation(node: Node) -> bool:
    """Return whether a node makes a tensor of numbers in the graph."""
    return node.op == "call_function" and _name(node) in _CREATIONS and not node.all_input_nodes and not _symbolic(node)


def _kind(node: Node) -> str:
    """Return 'given', 'view', 'anchor', 'following' or 'left out'."""
    if node.op in ("placeholder", "get_attr"):
        return "left out" if _symbolic(node) else "given"
    if node.op != "call_function":
        return "left out"
    if node.target is operator.getitem:
        kind = _kind(node.all_input_nodes[0])
        return "following" if kind == "anchor" else kind
    target = node.target
    name = _name(node)
    if not isinstance(target, torch._ops.OpOverload) or target.namespace not in ("aten", "prims"):
        return "left out"
    if target._schema.is_mutable or name in _UNSET or name.startswith("inductor_") or _symbolic(node):
        return "left out"
    if any(tag.name in _LEFT_OUT for tag in target.tags) and not _without_dropout(node):
        return "left out"
    if is_view(node) or is_creation(node):
        return "view"
    following = torch.Tag.pointwise in target.tags or name in _FOLLOWING
    return "following" if following else "anchor"


def _without_dropout(node: Node) -> bool:
    """Return whether an attention draws no random numbers."""
    places = {item.name: place for place, item in enumerate(node.target._schema.arguments)}
    place = places.get("dropout_p")
    if place is None:
        return False
    default = node.target._schema.arguments[place].default_value
    return bool((node.args[place] if place < len(node.args) else node.kwargs.get("dropout_p", default)) == 0.0)


def _name(node: Node) -> str:
    target = node.target
    return target._schema.name.partition("::")[2] if isinstance(target, torch._ops.OpOverload) else ""


def _symbolic(node: Node) -> bool:
    """Return whether a size is a symbol, or a value is neither a tensor nor several."""
    made = node.meta.get("val")
    values: Sequence[Any] = made if isinstance(made, tuple | list) else [made]
    if not all(isinstance(item, torch.Tensor) for item in values):
        return True
    if any(isinstance(item, torch.Tensor) and not item.is_sparse and has_symbols(item) for item in values):
        return True
    return any("val" in item.meta and not isinstance(item.meta["val"], torch.Tensor | tuple | list)
               for item in node.all_input_nodes)  # fmt: skip


def has_symbols(tensor: torch.Tensor) -> bool:
    """Return whether a size or a stride is not a number."""
    return any(not isinstance(size, int) for size in (*tensor.shape, *tensor.stride()))


def _joined(group_of: dict[Node, NodeGroup], one: NodeGroup, other: NodeGroup) -> NodeGroup:
    if len(one.nodes) < len(other.nodes):
        one, other = other, one
    one.nodes += other.nodes
    for node in other.nodes:
        group_of[node] = one
    return one


def _join_attention(group: NodeGroup, group_of: dict[Node, NodeGroup]) -> None:
    """Join scores and their softmax with the batched product that alone reads them."""
    names = {_name(node) for node in group.nodes}
    if not names & _BATCHED or not names & _MAXIMA:
        return
    own = set(group.nodes)
    users = {user for node in group.nodes for user in readers(node) if user not in own}
    if len(users) == 1 and _name(user := users.pop()) in _BATCHED:
        # Nothing else reads the scores, so no other path leads to the second product.
        _joined(group_of, group, group_of[user])
