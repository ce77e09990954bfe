"""Numbers the values of straight-line code: expressions with equal numbers are equal wherever they stand."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import libcst as cst

from ....core.syntax_tree import expression_tree
from ..source import code, operand
from ..tree import assigned_in, calls_in, only_line

Key = tuple[object, ...]
_LOAD = {"mask", "other", "cache_modifier", "eviction_policy"}
_COMMUTE: Mapping[type[ast.operator], str] = {ast.Add: "+", ast.Mult: "*", ast.BitAnd: "&"}
_ORDERED: Mapping[type[ast.operator], str] = {ast.FloorDiv: "//", ast.Sub: "-", ast.Mod: "%", ast.Div: "/"}


class ValueNumbers:
    """Value numbering: names are replaced by what they were last assigned; sums, products and `&` are unordered.

    A number says what is computed from the values that have no definition here (parameters, loop variables), so it
    is compared only with numbers of the same object. Calls are taken as pure: the caller treats loads itself.
    """

    def __init__(self) -> None:
        self._keys: list[Key] = []
        self._numbers: dict[Key, int] = {}
        self.names: dict[str, int] = {}
        """The present value of each name."""
        self.stores = 0
        """How often memory has been written: a load before and one after a store are different values."""

    def of(self, expression: cst.BaseExpression | str) -> int:
        """Return the number of an expression."""
        text = expression if isinstance(expression, str) else code(expression)
        return self._of(expression_tree(text))

    def run(self, statement: cst.BaseStatement) -> None:
        """Follow one statement. Unsupported assignments give unknown values."""
        match only_line(statement):
            case cst.Assign(targets=[cst.AssignTarget(cst.Name(name))], value=value):
                self.names[name] = self.of(value)
            case cst.AnnAssign(target=cst.Name(name), value=cst.BaseExpression() as value):
                self.names[name] = self.of(value)
            case cst.AugAssign(target=cst.Name(name), operator=cst.AddAssign(), value=value):
                self.names[name] = self.of(f"{name} + ({code(value)})")
            case _:
                self.forget(assigned_in(statement))
        self.stores += bool(calls_in(statement, ".store", ".atomic_*", ".debug_barrier"))

    def forget(self, names: Iterable[str]) -> None:
        """Give names new unknown values, such as the loop-carried ones."""
        for name in names:
            self.names[name] = self.unknown(name)

    def unknown(self, what: str) -> int:
        """Return a new unknown value, such as the result of an opaque statement in `what`."""
        return self._intern(("unknown", what, len(self._keys)))

    def key(self, number: int) -> Key:
        """Return how a value is made: its kind ('+', '<', 'load', ...), then texts and the numbers of its parts."""
        return self._keys[number]

    def parts(self, number: int, into_remainders: bool = True) -> Iterator[int]:
        """Yield the value and all its parts, optionally without those inside `a % b`."""
        seen, waiting = set[int](), [number]
        while waiting:
            current = waiting.pop()
            if current not in seen:
                seen.add(current)
                yield current
                if not into_remainders and self._keys[current][0] == "%":
                    continue
                waiting += [part for part in _flat(self._keys[current][1:]) if isinstance(part, Part)]

    def constant(self, number: int) -> int | None:
        """Return the value if it is an integer literal in the code."""
        key = self._keys[number]
        return key[1] if key[0] == "constant" and type(key[1]) is int else None

    def text(self, number: int, names: Mapping[str, str]) -> str | None:
        """Write a value of sums, products and floor divisions with other `names`; None if a name is unknown."""
        kind, *rest = self._keys[number]
        if kind == "constant":
            return repr(rest[0])
        if kind == "name":
            given = names.get(str(rest[0]))
            return None if given is None else operand(given)
        if kind in ("+", "*", "//", "-"):
            parts = [self.text(part, names) for part in _flat(rest) if isinstance(part, Part)]
            return None if None in parts else "(" + f" {kind} ".join(str(part) for part in parts) + ")"
        return None

    def address(self, pointer: cst.BaseExpression, parameters: Collection[str]) -> tuple[str, int] | None:
        """Return the base parameter of a pointer and the number of its offset; None without a base."""
        return self.split_address(self.of(pointer), parameters)

    def split_address(self, number: int, parameters: Collection[str]) -> tuple[str, int] | None:
        """Return the same of a pointer's number."""
        key = self._keys[number]
        terms = [item for item in key[1:] if isinstance(item, Part)] if key[0] == "+" else [Part(number)]
        bases = [term for term in terms if self._keys[term][0] == "name" and self._keys[term][1] in parameters]
        if len(bases) != 1:
            return None
        rest = [Part(term) for term in terms if term is not bases[0]]
        return str(self._keys[bases[0]][1]), self._combine("+", rest)

    def _intern(self, key: Key) -> Part:
        if key not in self._numbers:
            self._numbers[key] = len(self._keys)
            self._keys.append(key)
        return Part(self._numbers[key])

    def _of(self, node: ast.expr) -> Part:
        if isinstance(node, ast.Name):
            known = self.names.get(node.id)
            return self._intern(("name", node.id)) if known is None else Part(known)
        if isinstance(node, ast.Constant):
            return self._intern(("constant", node.value, type(node.value).__name__))
        if isinstance(node, ast.Subscript) and ast.unparse(node.slice) == ":":
            return self._of(node.value)
        if isinstance(node, ast.BinOp) and type(node.op) in _COMMUTE:
            return self._combine(_COMMUTE[type(node.op)], [self._of(node.left), self._of(node.right)])
        if isinstance(node, ast.BinOp) and type(node.op) in _ORDERED:
            return self._intern((_ORDERED[type(node.op)], self._of(node.left), self._of(node.right)))
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.Lt):
            return self._intern(("<", self._of(node.left), self._of(node.comparators[0])))
        if isinstance(node, ast.Call) and (load := self._load(node)) is not None:
            return load
        return self._intern((type(node).__name__, *(self._field(value) for _, value in ast.iter_fields(node))))

    def _load(self, call: ast.Call) -> Part | None:
        """Return a load of given addresses from the current memory. Cache hints are ignored."""
        keywords = {keyword.arg: keyword.value for keyword in call.keywords}
        if ast.unparse(call.func) != "tl.load" or not {*keywords} <= _LOAD or len(call.args) > 3 or not call.args:
            return None
        plain = [*call.args, None, None]
        given = (keywords.get("mask", plain[1]), keywords.get("other", plain[2]))
        masked = [self._of(item) if item else None for item in given]
        return self._intern(("load", self.stores, self._of(call.args[0]), *masked))

    def _field(self, value: object) -> object:
        if isinstance(value, ast.expr):
            return self._of(value)
        if isinstance(value, ast.AST):
            return (type(value).__name__, *(self._field(part) for _, part in ast.iter_fields(value)))
        return tuple(self._field(item) for item in value) if isinstance(value, list) else value

    def _combine(self, sign: str, parts: Sequence[Part]) -> Part:
        flat: list[Part] = []
        for part in parts:
            key = self._keys[part]
            flat += [p for p in _flat(key[1:]) if isinstance(p, Part)] if key[0] == sign else [part]
        neutral = {"+": 0, "*": 1}.get(sign)
        kept = sorted(part for part in flat if neutral is None or self.constant(part) != neutral)
        if sign == "&":
            kept = sorted(set(kept))
        if not kept:
            return self._intern(("constant", neutral, "int"))
        return kept[0] if len(kept) == 1 else self._intern((sign, *kept))


class Part(int):
    """A number inside a key, where plain integers are values of constants."""


def _flat(values: Sequence[object]) -> Iterator[object]:
    for value in values:
        if isinstance(value, tuple | list):
            yield from _flat(value)
        else:
            yield value
