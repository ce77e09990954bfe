"""Reads an elementwise function, and writes its body for another function's values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import libcst as cst

from ..applicability import fitting, require
from ..change import keyword_argument
from ..source import code, names, put, substitute
from ..template import matches
from ..tree import assigned_name, body_of, calls_in, edited, find_all, only_line, target_of
from .function import Function, argument
from .values import ValueNumbers

_INDEX, _VALUE, _MASK = "_index_", "_value_", "_mask_"


@dataclass(frozen=True)
class Elementwise:
    """A function without branches whose programs compute elements at program * block + 0, 1, ... of one axis."""

    function: Function
    block: str
    index: str
    """The first name that holds the index."""
    loaded: cst.Call
    """The only load of the requested parameter, at the index itself."""
    stores_to: frozenset[str]

    def inlined(
        self, index: str, value: str, mask: str | None, shape: str | None, renamed: Mapping[str, str]
    ) -> list[cst.BaseStatement] | None:
        """Write the body for the elements at `index` under `mask`, with `value` in place of its load.

        `renamed` gives every parameter and local name its new one. None where the block's shape is needed and not
        known. What nothing uses is left out.
        """
        values = ValueNumbers()
        number, lanes = _index(values, self.block), values.of(f"tl.arange(0, {self.block})")
        body: list[cst.BaseStatement] = []
        for statement in body_of(self.function.node):
            is_first = self.index not in values.names
            new: cst.CSTNode = statement
            for call in calls_in(statement, "tl.load", "tl.store"):
                pointer = argument(call, "pointer", 0)
                if call is self.loaded:
                    new = edited(new, {call: put(_VALUE)})
                elif pointer is not None and lanes in values.parts(values.of(pointer)):
                    new = edited(new, {call: lambda old: _masked(old, mask)})
            values.run(statement)
            if is_first and values.names.get(self.index) == number:
                new = cst.parse_statement(f"{self.index} = {_INDEX}")
            assert isinstance(new, cst.BaseStatement)
            body.append(new)
        new_names = {_INDEX: index, _VALUE: f"({value}).to(tl.float32)", _MASK: mask or "None", **renamed}
        written: list[cst.CSTNode] = [substitute(item, new_names) for item in _alive(body)]
        if shape is not None:
            old = f"[{renamed[self.block]}]"
            lists = [
                shape_list for item in written for shape_list in find_all(item, cst.List) if code(shape_list) == old
            ]
            written = [edited(item, {shape_list: put(shape) for shape_list in lists}) for item in written]
        if any(renamed[self.block] in names(item) for item in written):
            return None
        return [item for item in written if isinstance(item, cst.BaseStatement)]


def elementwise_of(function: Function, parameter: str) -> Elementwise:
    """Return the function as one that reads `parameter` once, at the index.

    Raises NotApplicableError for another kind.
    """
    none = f"{function.name} has no block"
    return fitting(function.constexprs, lambda block: _elementwise(function, parameter, block), none, 1)[0]


def _elementwise(function: Function, parameter: str, block: str) -> Elementwise:
    none = f"{function.name} is not elementwise over the buffer"
    values = ValueNumbers()
    number = _index(values, block)
    index: str | None = None
    loads: list[cst.Call] = []
    read, stored = set[str](), set[str]()
    for statement in body_of(function.node):
        require(assigned_name(statement) or isinstance(only_line(statement), cst.Expr), none)
        for call in calls_in(statement, "tl.load", "tl.store"):
            pointer = argument(call, "pointer", 0)
            address = values.address(pointer, function.parameters) if pointer is not None else None
            base, offset = address or ("", number)
            require(base and (base != parameter or offset == number), none)
            if _is_store(call):
                stored.add(base)
            elif base == parameter:
                loads.append(call)
            else:
                read.add(base)
        values.run(statement)
        index = index or next((name for name, known in values.names.items() if known == number), None)
    # Another program may read its stores at another element.
    require(index is not None and len(loads) == 1 and stored and not read & stored, none)
    return Elementwise(function, block, str(index), loads[0], frozenset(stored))


def _index(values: ValueNumbers, block: str) -> int:
    return values.of(f"tl.program_id(0) * {block} + tl.arange(0, {block})")


def _is_store(call: cst.Call) -> bool:
    return matches(call, "tl.store(q__)")


def _masked(call: cst.Call, mask: str | None) -> cst.Call:
    """Return a load or store under `mask` only. Its own mask is the end of the axis."""
    position = 2 if _is_store(call) else 1
    plain = [arg for arg in call.args if arg.keyword is None][:position]
    kept = [arg for arg in call.args if arg.keyword is not None and arg.keyword.value not in ("mask", "other")]
    new = [keyword_argument("mask", _MASK)] if mask is not None else []
    args = [arg.with_changes(comma=cst.MaybeSentinel.DEFAULT) for arg in (*plain, *new, *kept)]
    return call.with_changes(args=args)


def _alive(body: Sequence[cst.BaseStatement]) -> list[cst.BaseStatement]:
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
