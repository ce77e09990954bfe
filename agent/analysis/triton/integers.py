"""What the host's text says about numbers that it passes to a launch."""

from __future__ import annotations

import libcst as cst
import libcst.matchers as m

from ..search import find_all
from ..source import code, names

_ARITHMETIC = cst.Add | cst.Subtract | cst.Multiply | cst.FloorDivide | cst.Modulo
_OF_TENSORS = {"numel", "size", "stride", "dim", "element_size"}
_FUNCTIONS = {"triton.cdiv", "min", "max", "len"}
_OF_MODULES = {"in_channels", "out_channels", "in_features", "out_features", "groups", "num_groups", "num_features"}
_TUPLES = {"shape", "kernel_size", "stride", "padding", "dilation", "output_padding"}


def is_integer(host: cst.FunctionDef, value: cst.BaseExpression, seen: frozenset[str] = frozenset()) -> bool:
    """Return whether an expression of the host is certainly a whole number.

    Sizes and strides of tensors are, and those attributes of torch's modules that always are. `seen` are names that
    the expression is part of: what is made of itself is not certain.
    """
    match value:
        case cst.Integer():
            return True
        case cst.BinaryOperation(left=left, operator=operator, right=right):
            return isinstance(operator, _ARITHMETIC) and all(is_integer(host, item, seen) for item in (left, right))
        case cst.Attribute(attr=cst.Name(value=name)):
            return name in _OF_MODULES
        case cst.Subscript(value=cst.Attribute(attr=cst.Name(value=name))):
            return name in _TUPLES and not find_all(value, m.Slice())
        case cst.Call(func=cst.Attribute(attr=cst.Name(value=name))) if name in _OF_TENSORS:
            return name in ("numel", "dim", "element_size") or len(value.args) == 1
        case cst.Call(func=function, args=given):
            return code(function) in _FUNCTIONS and (
                code(function) == "len" or all(is_integer(host, item.value, seen) for item in given if not item.star)
            )
        case cst.Name(value=name):
            return name not in seen and _is_integer_name(host, name, seen | {name})
    return False


def _is_integer_name(host: cst.FunctionDef, name: str, seen: frozenset[str]) -> bool:
    """Return whether all that the host's function assigns to a name is whole."""
    found: list[bool] = []
    for node in find_all(host, m.Assign() | m.AnnAssign() | m.AugAssign() | m.For() | m.NamedExpr() | m.With()):
        match node:
            case cst.Assign(targets=targets, value=value):
                found += [
                    _gives(host, item.target, value, name, seen) for item in targets if name in names(item.target)
                ]
            case cst.AnnAssign(target=target) | cst.AugAssign(target=target) | cst.For(target=target):
                found += [False] if name in names(target) else []
            case cst.NamedExpr(target=target):
                found += [False] if name in names(target) else []
            case _:
                found += [False] if name in names(node) else []
    return bool(found) and all(found)


def _gives(
    host: cst.FunctionDef, target: cst.BaseExpression, value: cst.BaseExpression, name: str, seen: frozenset[str]
) -> bool:
    """Return whether `target = value` makes a name a whole number: by itself, or as a part of a shape or a tuple."""
    if isinstance(target, cst.Name):
        return name not in names(value) and is_integer(host, value, seen)
    if not isinstance(target, cst.Tuple) or any(isinstance(element, cst.StarredElement) for element in target.elements):
        return False
    if isinstance(value, cst.Tuple) and len(value.elements) == len(target.elements):
        pairs = zip(target.elements, value.elements, strict=True)
        return all(_gives(host, one.value, other.value, name, seen) for one, other in pairs if name in names(one))
    whole = value.value if isinstance(value, cst.Subscript) else value
    return isinstance(whole, cst.Attribute) and whole.attr.value in _TUPLES
