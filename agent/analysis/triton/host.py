"""Facts from the host's text about the tensors and numbers that it passes to a launch."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import libcst as cst
import libcst.matchers as m

from ..change import Change
from ..source import code, expression, names
from ..template import match, matches
from ..tree import find_all
from .function import is_range
from .kernel import Launch

SPLIT_HALVES = "split_halves"
"""The function of a file that splits a tensor into both parts of its elements; the rule split-operands writes it."""
_NEW = ("torch.empty(q__)", "torch.empty_like(q__)", "torch.zeros(q__)", "q_x.contiguous()")
_ARITHMETIC = cst.Add | cst.Subtract | cst.Multiply | cst.FloorDivide | cst.Modulo
_OF_TENSORS = {"numel", "size", "stride", "dim", "element_size"}
_FUNCTIONS = {"triton.cdiv", "min", "max", "len"}
_OF_MODULES = {"in_channels", "out_channels", "in_features", "out_features", "groups", "num_groups", "num_features"}
_TUPLES = {"shape", "kernel_size", "stride", "padding", "dilation", "output_padding"}


def is_dense(host: cst.FunctionDef, tensor: cst.BaseExpression, seen: frozenset[str] = frozenset()) -> bool:
    """Return whether a tensor certainly has its elements side by side, in whatever order.

    A parameter of a module is, and a name that only gets new tensors or contiguous ones. `seen` are names that stand
    for the tensor already: what two of them give each other is nothing.
    """
    if isinstance(tensor, cst.Name):
        values, further = assigned(host, tensor.value), seen | {tensor.value}
        return tensor.value not in seen and bool(values) and all(is_dense(host, value, further) for value in values)
    if isinstance(tensor, cst.Attribute):
        return is_of_module(host, tensor, seen)
    if seen and matches(tensor, *_NEW):
        return True
    sizes, strides = whole_numbers(tensor) or ((), ())
    axes = sorted((stride, size) for size, stride in zip(sizes, strides, strict=True) if size > 1)
    inner = [math.prod(size for _, size in axes[:i]) for i in range(len(axes))]
    return bool(seen and whole_numbers(tensor)) and [stride for stride, _ in axes] == inner


def whole_numbers(call: cst.CSTNode) -> tuple[list[int], list[int]] | None:
    """Return sizes and strides of `torch.empty_strided((sizes), (strides), ...)`; None if they are not numbers."""
    if not isinstance(call, cst.Call) or not matches(call, "torch.empty_strided(q_sizes, q_strides, q__)"):
        return None
    tuples = [arg.value for arg in call.args[:2]]
    literal = m.Tuple(elements=[m.ZeroOrMore(m.Element(m.Integer()))])
    if not all(m.matches(elements, literal) for elements in tuples):
        return None
    sizes, strides = ([int(code(part)) for part in find_all(elements, cst.Integer)] for elements in tuples)
    return sizes, strides


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


def holds_halves(host: cst.FunctionDef, tensor: cst.BaseExpression) -> bool:
    """Return whether a tensor holds both parts of an operand, which begin at whole vectors."""
    split = f"q_tensor, q__ = {SPLIT_HALVES}(q__)"
    found = [assignment for assignment in find_all(host, cst.Assign) if matches(assignment, split, tensor=code(tensor))]
    return isinstance(tensor, cst.Name) and len(found) == len(assigned(host, tensor.value)) == 1


def make_contiguous(change: Change, tensors: Iterable[tuple[cst.FunctionDef, str]]) -> None:
    """Let methods of the host begin with making some of their arguments contiguous."""
    texts: dict[cst.FunctionDef, str] = {}
    for host, name in dict.fromkeys(tensors):
        texts[host] = texts.get(host, "") + f"{name} = {name}.contiguous()\n"
    for host, text in texts.items():
        change.at_start(host, text)


def assigned(host: cst.FunctionDef, name: str) -> Sequence[cst.BaseExpression]:
    """Return the values that a name of the host's function gets: `...` for a part of something."""
    plain = find_all(host, cst.Assign, m.Assign(targets=[m.AssignTarget(m.Name(name))]))
    several = find_all(host, cst.AssignTarget, _among(name))
    return [*(item.value for item in plain), *(cst.Ellipsis() for _ in several)]


def _among(name: str) -> m.AssignTarget:
    return m.AssignTarget(m.Tuple(elements=[m.ZeroOrMore(), m.Element(m.Name(name)), m.ZeroOrMore()]))


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
            return name in _TUPLES and not find_all(value, cst.Slice)
        case cst.Call(func=cst.Attribute(attr=cst.Name(value=name))) if name in _OF_TENSORS:
            return name in ("numel", "dim", "element_size") or len(value.args) == 1
        case cst.Call(func=function, args=given) if code(function) in _FUNCTIONS:
            plain = (item.value for item in given if not item.star)
            return code(function) == "len" or all(is_integer(host, item, seen) for item in plain)
        case cst.Name(value=name):
            return name not in seen and _is_integer_name(host, name, seen | {name})
    return False


def _is_integer_name(host: cst.FunctionDef, name: str, seen: frozenset[str]) -> bool:
    kinds = m.Assign() | m.AnnAssign() | m.AugAssign() | m.For() | m.NamedExpr() | m.With()
    found: list[bool] = []
    for node in find_all(host, kinds):
        match node:
            case cst.Assign(targets=targets, value=value):
                own = [item.target for item in targets if name in names(item.target)]
                found += [_gives(host, target, value, name, seen) for target in own]
            case _:
                found += [False] * (name in names(getattr(node, "target", node)))
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
        return all(_gives(host, left.value, right.value, name, seen) for left, right in pairs if name in names(left))
    whole = value.value if isinstance(value, cst.Subscript) else value
    return isinstance(whole, cst.Attribute) and whole.attr.value in _TUPLES


def assumption(launch: Launch, loop: cst.For) -> str | None:
    """Return a statement for before a loop that certainly runs; None for any other loop.

    Around a loop that may have no steps there is a way on which zeros meet its results, and for some tiles (on sm_90
    those of 256 x 128 in fp16) ptxas of Triton 3.6 then lets every wgmma wait for the one before.

    A loop runs that stands in the function's own body and counts from zero, in steps of a constant, up to a parameter
    that is a size of a tensor, or up to as many steps as cover it: no problem has tensors without elements.
    """
    if launch.function.place_of(loop) is None or not is_range(loop):
        return None
    bounds = [arg.value for arg in cst.ensure_type(loop.iter, cst.Call).args if arg.keyword is None]
    start, stop, step = [cst.Integer("0"), *bounds, cst.Integer("1")] if len(bounds) == 1 else [*bounds, None, None][:3]
    if start is None or stop is None or code(start) != "0" or not _is_positive(launch, step):
        return None
    if isinstance(stop, cst.Name):
        return f"tl.assume({stop.value} > 0)\n" if _is_size(launch, stop) else None
    found = match("tl.cdiv(q_size, q_tile)", stop)
    if found is None:
        return None
    size, tile = found["size"], found["tile"]
    if not _is_size(launch, expression(size)) or not _is_positive(launch, expression(tile)):
        return None
    # LLVM finds the number of steps above zero where the size and a tile together do not wrap around.
    return f"tl.assume({size} + {tile} > {tile})\n"


def _is_positive(launch: Launch, step: cst.BaseExpression | None) -> bool:
    """Return whether a step is the size of a tile or a number above zero; one that is left out is 1."""
    if step is None or isinstance(step, cst.Integer):
        return step is None or code(step) != "0"
    return isinstance(step, cst.Name) and step.value in launch.function.constexprs


def _is_size(launch: Launch, stop: cst.BaseExpression) -> bool:
    value = launch.arguments.get(code(stop))
    fixed = isinstance(stop, cst.Name) and launch.function.is_fixed(stop.value)
    return fixed and value is not None and _is_size_of_tensor(launch.host, value)


def _is_size_of_tensor(host: cst.FunctionDef, value: cst.BaseExpression, seen: frozenset[str] = frozenset()) -> bool:
    if matches(value, "q_x.shape[q_axis]"):
        return True
    if not isinstance(value, cst.Name) or value.value in seen:
        return False
    unpacked = find_all(host, cst.Assign, m.Assign([_among(value.value)], m.Attribute(attr=m.Name("shape"))))
    given = assigned(host, value.value)
    if len(given) != 1 or find_all(host, cst.AugAssign, m.AugAssign(target=m.Name(value.value))):
        return False
    return bool(unpacked) or _is_size_of_tensor(host, given[0], seen | {value.value})
