"""What the host's text says about the tensors that it passes to a launch."""

from __future__ import annotations

import math
from collections.abc import Sequence

import libcst as cst
import libcst.matchers as m

from ..search import find_all
from ..source import code

SPLIT_HALVES = "split_halves"
"""The function of a file that splits a tensor into both parts of its elements; the rule split-operands writes it."""
_EMPTY = m.Call(
    func=m.Attribute(m.Name("torch"), m.OneOf(*(m.Name(item) for item in ("empty", "empty_like", "zeros"))))
)
_CONTIGUOUS = m.Call(func=m.Attribute(attr=m.Name("contiguous")), args=[])
_STRIDED = m.Call(func=m.Attribute(m.Name("torch"), m.Name("empty_strided")))


def is_dense(host: cst.FunctionDef, tensor: cst.BaseExpression, seen: frozenset[str] = frozenset()) -> bool:
    """Return whether a tensor certainly has its elements side by side, in whatever order.

    A parameter of a module is, and a name that only gets new tensors or contiguous ones. `seen` are names that stand
    for the tensor already: what two of them give each other is nothing.
    """
    if isinstance(tensor, cst.Attribute):
        return is_of_module(host, tensor)
    if not isinstance(tensor, cst.Name) or tensor.value in seen:
        return False
    values = assigned(host, tensor.value)
    if not values and is_argument(host, tensor.value):
        return False
    return bool(values) and all(_is_new(host, value, seen | {tensor.value}) for value in values)


def is_of_module(host: cst.FunctionDef, tensor: cst.BaseExpression, seen: frozenset[str] = frozenset()) -> bool:
    """Return whether an expression is an attribute below `self`, directly or through names."""
    if isinstance(tensor, cst.Attribute):
        return is_of_module(host, tensor.value, seen)
    if not isinstance(tensor, cst.Name) or tensor.value in seen:
        return False
    values = assigned(host, tensor.value)
    return tensor.value == "self" or (len(values) == 1 and is_of_module(host, values[0], seen | {tensor.value}))


def is_argument(host: cst.FunctionDef, name: str) -> bool:
    """Return whether a name is an argument of forward that nothing assigns."""
    return name in {parameter.name.value for parameter in host.params.params[1:]} and not assigned(host, name)


def assigned(host: cst.FunctionDef, name: str) -> Sequence[cst.BaseExpression]:
    """Return the values that a name of the host's function gets."""
    found = find_all(host, m.Assign(targets=[m.AssignTarget(m.Name(name))]))
    several = find_all(
        host, m.AssignTarget(m.Tuple(elements=[m.ZeroOrMore(), m.Element(m.Name(name)), m.ZeroOrMore()]))
    )
    return [*(cst.ensure_type(item, cst.Assign).value for item in found), *(cst.Ellipsis() for _ in several)]


def _is_new(host: cst.FunctionDef, value: cst.BaseExpression, seen: frozenset[str]) -> bool:
    if m.matches(value, _CONTIGUOUS | _EMPTY):
        return True
    if isinstance(value, cst.Attribute):
        return is_of_module(host, value, seen)
    if isinstance(value, cst.Name):
        return is_dense(host, value, seen)
    return m.matches(value, _STRIDED) and _is_dense_layout(cst.ensure_type(value, cst.Call))


def _is_dense_layout(call: cst.Call) -> bool:
    """Return whether `torch.empty_strided((sizes), (strides))` has no holes and no overlaps."""
    literal = m.Tuple(elements=[m.ZeroOrMore(m.Element(m.Integer()))])
    if len(call.args) < 2 or not all(m.matches(argument.value, literal) for argument in call.args[:2]):
        return False
    sizes, strides = (
        [int(code(part.value)) for part in cst.ensure_type(argument.value, cst.Tuple).elements]
        for argument in call.args[:2]
    )
    axes = sorted((stride, size) for size, stride in zip(sizes, strides, strict=True) if size > 1)
    inner = [math.prod(size for _, size in axes[:i]) for i in range(len(axes))]
    return [stride for stride, _ in axes] == inner
