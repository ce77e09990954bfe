"""Constraints over parameters: a safe subset of Python expressions."""

from __future__ import annotations

import ast
import copy
import functools
import numbers
import operator
from collections.abc import Callable, Mapping
from types import CodeType, MappingProxyType
from typing import TYPE_CHECKING, Any

from .errors import SpaceError
from .syntax_tree import expression_tree

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

FUNCTIONS = {"min": min, "max": max, "abs": abs}

# `**` and `<<` are excluded: 9**9**9 would never finish. `*` and `%` are for numbers only: repeating or formatting a
# text could fill the memory.
_ALLOWED = (
    ast.BoolOp, ast.And, ast.Or, ast.UnaryOp, ast.Not, ast.USub, ast.UAdd,
    ast.BinOp, ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod,
    ast.Compare, ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.In, ast.NotIn,
    ast.IfExp, ast.Call, ast.Name, ast.Load, ast.Constant, ast.Tuple, ast.List,
)  # fmt: skip
_CONSTANTS = (int, float, str, type(None))


class Expression:
    """A checked and compiled expression over parameter names, with the values of `sizes` inserted.

    Raises `SpaceError` if the text is not an expression, or uses anything but arithmetic, comparisons, `and`, `or`,
    `not`, `min`, `max` and `abs`.
    """

    def __init__(self, text: str, sizes: Mapping[str, int] = MappingProxyType({})) -> None:
        self.text = text
        tree = _parse(text)
        called = {
            node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        }
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        self.names = frozenset(names - called - sizes.keys())
        self.sizes = frozenset((names - called) & sizes.keys())
        if self.sizes:
            tree = ast.fix_missing_locations(_PutIn(sizes).visit(tree))
        self._tree = tree
        self._code: CodeType = _compiled(tree, text)

    def __call__(self, values: Mapping[str, Any]) -> Any:
        """Return the value at these parameters. A division by zero gives False."""
        try:
            return eval(self._code, {"__builtins__": {}, **FUNCTIONS, **_OF_NUMBERS}, dict(values))
        except ZeroDivisionError:
            return False
        except OverflowError as error:
            raise SpaceError(f"constraint {self.text!r}: {error}; use smaller numbers") from None
        except NameError as error:
            raise SpaceError(f"constraint {self.text!r}: {error}; use the names of the parameters") from None
        except (TypeError, ValueError) as error:
            raise SpaceError(f"constraint {self.text!r} does not fit its parameters: {error}") from None

    def over(self, columns: Mapping[str, npt.NDArray[Any]], length: int) -> npt.NDArray[np.bool_]:
        """Return a mask of the rows of `columns`, each with `length` values, that satisfy the expression."""
        import numpy as np

        try:
            with np.errstate(divide="ignore", invalid="ignore"):
                result = _over(self._tree, columns)
            return np.broadcast_to(np.asarray(result, dtype=bool), (length,))
        except (TypeError, ArithmeticError, ValueError):
            # Mixed types, a zero, integers beyond 64 bits: fall back to Python, row by row.
            plain = {name: column.tolist() for name, column in columns.items()}
            rows = ({name: values[i] for name, values in plain.items()} for i in range(length))
            return np.fromiter((bool(self(row)) for row in rows), dtype=bool, count=length)


def _compiled(tree: ast.expr, text: str) -> CodeType:
    try:
        whole = ast.fix_missing_locations(ast.Expression(_OfNumbers().visit(copy.deepcopy(tree))))
        code: CodeType = compile(whole, f"<constraint {text}>", "eval")
    except (RecursionError, MemoryError):  # what compile() raises for deep nesting
        raise _too_deep(text) from None
    return code


def _too_deep(text: str) -> SpaceError:
    return SpaceError(f"constraint {text[:80]!r}... nests too deeply; write it as several")


class _OfNumbers(ast.NodeTransformer):
    """Replaces `*` and `%` by functions that check the types of their operands."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        if not isinstance(node.op, ast.Mult | ast.Mod):
            return node
        return ast.Call(ast.Name(_NAMES[type(node.op)], ast.Load()), [node.left, node.right], [])


def _of_numbers(sign: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def computed(left: Any, right: Any) -> Any:
        if not (isinstance(left, numbers.Real) and isinstance(right, numbers.Real)):
            raise TypeError(f"{sign.__name__} is for numbers")
        return sign(left, right)

    return computed


_NAMES: dict[type[ast.operator], str] = {ast.Mult: "product of numbers", ast.Mod: "remainder of numbers"}
"""Names of these functions. No parameter can have such a name, since it has spaces."""
_OF_NUMBERS = {_NAMES[ast.Mult]: _of_numbers(operator.mul), _NAMES[ast.Mod]: _of_numbers(operator.mod)}


class _PutIn(ast.NodeTransformer):
    """Replaces names by their values."""

    def __init__(self, values: Mapping[str, int]) -> None:
        self._values = values

    def visit_Call(self, node: ast.Call) -> ast.Call:
        node.args = [self.visit(argument) for argument in node.args]  # the function's own name stays
        return node

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Constant(self._values[node.id]) if node.id in self._values else node


def _parse(text: str) -> ast.expr:
    try:
        tree = expression_tree(text)
    except (RecursionError, MemoryError):
        raise _too_deep(text) from None
    except (SyntaxError, ValueError):
        raise SpaceError(
            f"constraint {text!r} is not an expression; write one such as 'BLOCK_M * BLOCK_N <= 16384'"
        ) from None
    for node in ast.walk(tree):
        if (
            not isinstance(node, _ALLOWED)
            or (isinstance(node, ast.Call) and not _plain(node))
            or (isinstance(node, ast.Constant) and not isinstance(node.value, _CONSTANTS))
        ):
            raise SpaceError(
                f"constraint {text!r}: {type(node).__name__} is not allowed; use arithmetic, comparisons, "
                "and/or/not, min, max and abs"
            )
    return tree


def _plain(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Name) and call.func.id in FUNCTIONS and not call.keywords


def _over(node: ast.expr, columns: Mapping[str, Any]) -> Any:
    """Evaluate a checked expression over whole columns, by Python's rules."""
    import numpy as np

    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return columns[name]
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            return [_over(part, columns) for part in parts]
        case ast.UnaryOp(op=sign, operand=operand):
            value = _over(operand, columns)
            return np.logical_not(_truth(value)) if isinstance(sign, ast.Not) else _SIGNS[type(sign)](_number(value))
        case ast.BinOp(left=left, op=sign, right=right):
            first, second = _number(_over(left, columns)), _number(_over(right, columns))
            if isinstance(sign, ast.Div | ast.FloorDiv | ast.Mod) and not np.all(second):
                raise ZeroDivisionError
            if _overflows(sign, first, second):
                raise OverflowError
            return _ARITHMETIC[type(sign)](first, second)
        case ast.BoolOp(op=joint, values=parts):
            result = _over(parts[0], columns)
            for part in parts[1:]:
                later = _over(part, columns)
                chosen = (later, result) if isinstance(joint, ast.And) else (result, later)
                result = _choose(result, *chosen)
            return result
        case ast.Compare(left=left, ops=signs, comparators=others):
            result, before = True, _over(left, columns)
            for comparison, other in zip(signs, others, strict=True):
                after = _over(other, columns)
                result = np.logical_and(result, _compare(comparison, before, after))
                before = after
            return result
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return _choose(_over(test, columns), _over(body, columns), _over(orelse, columns))
        case ast.Call(func=ast.Name(id=name), args=arguments):
            values = [_over(argument, columns) for argument in arguments]
            if len(values) == 1 and isinstance(values[0], list):
                values = values[0]
            if name == "abs":
                return np.abs(_number(values[0]))
            function = np.minimum if name == "min" else np.maximum
            return functools.reduce(function, (_number(value) for value in values))
    raise TypeError(type(node).__name__)


_SIGNS: dict[type[ast.unaryop], Callable[[Any], Any]] = {ast.USub: operator.neg, ast.UAdd: operator.pos}
_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


def _compare(comparison: ast.cmpop, left: Any, right: Any) -> Any:
    import numpy as np

    if isinstance(comparison, ast.In | ast.NotIn):
        if not isinstance(right, list):
            raise TypeError("in needs a list")
        found = functools.reduce(np.logical_or, (np.equal(left, value) for value in right), False)
        return found if isinstance(comparison, ast.In) else np.logical_not(found)
    return _COMPARISONS[type(comparison)](left, right)


def _choose(test: Any, body: Any, orelse: Any) -> Any:
    """Select one of two values per row; numpy would turn numbers beside texts into texts."""
    import numpy as np

    if len({np.asarray(value).dtype.kind in "US" for value in (body, orelse)}) > 1:
        raise TypeError("numbers and texts")
    return np.where(_truth(test), body, orelse)


def _overflows(sign: ast.operator, first: Any, second: Any) -> bool:
    """Return whether a result might need more than 64 bits."""
    if first.dtype.kind != "i" or second.dtype.kind != "i" or not first.size or not second.size:
        return False
    most = [max(abs(int(values.min())), abs(int(values.max()))) for values in (first, second)]
    largest = most[0] * most[1] if isinstance(sign, ast.Mult) else most[0] + most[1]
    return isinstance(sign, ast.Mult | ast.Add | ast.Sub) and largest >= 2**63


def _truth(value: Any) -> Any:
    import numpy as np

    return np.asarray(value).astype(bool)


def _number(value: Any) -> Any:
    """Convert truth values to 0 and 1, as Python does; numpy would add them by `or`."""
    import numpy as np

    array = np.asarray(value)
    return array.astype(np.int64) if array.dtype == bool else array
