"""Reads an elementwise function, and writes its body for another function's values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from ..search import find_all
from ..source import code, expression, names, substitute, target_of
from .function import Function, argument, calls_in
from .passes import body_of
from .values import Values

_ASSIGN = m.Assign(targets=[m.AssignTarget(m.Name())]) | m.AnnAssign(target=m.Name())
_LINE = m.SimpleStatementLine([_ASSIGN | m.Expr()])
_INDEX, _VALUE, _MASK = "_index_", "_value_", "_mask_"


@dataclass(frozen=True)
class Elementwise:
    """A function without branches whose programs compute elements at program * block + 0, 1, ... of one axis."""

    function: Function
    block: str
    index: str
    """The first name that holds the index."""
    loaded: cst.Call
    """The only load of the parameter that was asked for, at the index itself."""
    stores_to: frozenset[str]
    """The parameters that it stores to."""

    def inlined(
        self, index: str, value: str, mask: str | None, shape: str | None, renamed: Mapping[str, str]
    ) -> list[cst.BaseStatement] | None:
        """Write the body for the elements at `index` under `mask`, with `value` for what it loads.

        `renamed` gives every parameter and local name its new one. None where the block's shape is needed and not
        known. What nothing uses is left out.
        """
        values = Values()
        number, lanes = _index(values, self.block), values.of(f"tl.arange(0, {self.block})")
        body: list[cst.BaseStatement] = []
        for statement in body_of(self.function.node):
            is_first = self.index not in values.names
            new: cst.CSTNode = statement
            for call in calls_in(statement, "load", "store"):
                pointer = argument(call, "pointer", 0)
                if call is self.loaded:
                    new = _exchanged(new, call, cst.Name(_VALUE))
                elif pointer is not None and lanes in values.parts(values.of(pointer)):
                    new = _exchanged(new, call, _masked(call, mask))
            values.run(statement)
            if is_first and values.names.get(self.index) == number:
                new = cst.parse_statement(f"{self.index} = {_INDEX}")
            assert isinstance(new, cst.BaseStatement)
            body.append(new)
        put = {_INDEX: index, _VALUE: f"({value}).to(tl.float32)", _MASK: mask or "None", **renamed}
        written: list[cst.CSTNode] = [substitute(item, put) for item in _alive(body)]
        if shape is not None:
            written = [_reshaped(item, f"[{renamed[self.block]}]", shape) for item in written]
        if any(renamed[self.block] in names(item) for item in written):
            return None
        return [item for item in written if isinstance(item, cst.BaseStatement)]


def elementwise_of(function: Function, parameter: str) -> Elementwise | None:
    """Return the function as one that reads `parameter` once, at the index; None where it is another kind."""
    for block in function.constexprs:
        found = _elementwise(function, parameter, block)
        if found is not None:
            return found
    return None


def _elementwise(function: Function, parameter: str, block: str) -> Elementwise | None:
    values = Values()
    number = _index(values, block)
    index: str | None = None
    loads: list[cst.Call] = []
    read, stored = set[str](), set[str]()
    for statement in body_of(function.node):
        if not m.matches(statement, _LINE):
            return None
        for call in calls_in(statement, "load", "store"):
            pointer = argument(call, "pointer", 0)
            address = values.address(pointer, function.parameters) if pointer is not None else None
            if address is None or (address[0] == parameter and address[1] != number):
                return None
            if _is_store(call):
                stored.add(address[0])
            elif address[0] == parameter:
                loads.append(call)
            else:
                read.add(address[0])
        values.run(statement)
        index = index or next((name for name, one in values.names.items() if one == number), None)
    # What it stores may be read by another program at another element.
    if index is None or len(loads) != 1 or not stored or read & stored:
        return None
    return Elementwise(function, block, index, loads[0], frozenset(stored))


def _index(values: Values, block: str) -> int:
    return values.of(f"tl.program_id(0) * {block} + tl.arange(0, {block})")


def _is_store(call: cst.Call) -> bool:
    return code(call.func) == "tl.store"


def _masked(call: cst.Call, mask: str | None) -> cst.Call:
    """Return a load or store under `mask` alone: what it masks itself is the end of the axis."""
    position = 2 if _is_store(call) else 1
    plain = [arg for arg in call.args if arg.keyword is None][:position]
    kept = [arg for arg in call.args if arg.keyword is not None and arg.keyword.value not in ("mask", "other")]
    equal = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
    new = [cst.Arg(cst.Name(_MASK), cst.Name("mask"), equal=equal)] if mask is not None else []
    args = [arg.with_changes(comma=cst.MaybeSentinel.DEFAULT) for arg in (*plain, *new, *kept)]
    return call.with_changes(args=args)


def _exchanged(node: cst.CSTNode, old: cst.CSTNode, new: cst.CSTNode) -> cst.CSTNode:
    changed = node.deep_replace(old, new)
    assert isinstance(changed, cst.CSTNode)
    return changed


def _alive(body: Sequence[cst.BaseStatement]) -> list[cst.BaseStatement]:
    """Return the stores, and the assignments that lead to them."""
    kept: list[cst.BaseStatement] = []
    needed: set[str] = set()
    for statement in reversed(body):
        inner = cst.ensure_type(statement, cst.SimpleStatementLine).body[0]
        if isinstance(inner, cst.Expr):
            if not (isinstance(inner.value, cst.Call) and _is_store(inner.value)):
                continue
            needed |= names(inner)
        else:
            assert isinstance(inner, cst.Assign | cst.AnnAssign | cst.AugAssign)
            target = code(target_of(inner))
            if target not in needed or inner.value is None:
                continue
            needed = (needed - {target}) | names(inner.value)
        kept.insert(0, statement)
    return kept


def _reshaped(node: cst.CSTNode, old: str, shape: str) -> cst.CSTNode:
    """Return the node with the list `old`, a shape, replaced."""
    for match in find_all(node, m.List()):
        if isinstance(match, cst.List) and code(match) == old:
            node = _exchanged(node, match, expression(shape))
    return node
