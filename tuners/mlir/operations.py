"""Converts linalg operations that are sums of products into loops and indices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...core.mlir_operation import Index, Loop, Operation, TensorType
from .bindings import load

# The roles that IREE's bindings infer, with the names of their loops.
_PRODUCT = {"batch": "B", "m": "M", "n": "N", "k": "K"}
_CONVOLUTION = {"batch": "B", "output_image": "O", "output_channel": "OC", "filter_loop": "K", "input_channel": "IC"}
_IMAGE = ("H", "W")
_MEMO = "linalg.memoized_indexing_maps"
_REDUCTIONS = ("k", "filter_loop", "input_channel")


class NotSchedulableError(Exception):
    """An operation has no schedule here, for a reason in words."""


def operation_of(operation: Any, position: int, number: int) -> Operation | None:
    """Return an operation as loops and indices; None for other dialects, copies and fills.

    Raises `NotSchedulableError` for another of linalg's.
    """
    _, linalg = load()
    if not operation.name.startswith("linalg.") or operation.name in ("linalg.fill", "linalg.yield", "linalg.index"):
        return None
    if is_quantized(operation.name):
        raise NotSchedulableError("it is quantized: products with zero points are not scheduled")
    if linalg.isa_contraction_op(operation):
        roles = _roles(linalg.infer_contraction_dimensions(operation), _PRODUCT)
        return _described(operation, position, number, _names(roles, _PRODUCT), roles)
    if linalg.isa_convolution_op(operation):
        dimensions = linalg.infer_convolution_dimensions(operation)
        if dimensions is None:
            raise NotSchedulableError("its loops are not those of a convolution of two tensors")
        roles = _roles(dimensions, _CONVOLUTION)
        if list(dimensions.depth) or not (roles["input_channel"] and roles["output_channel"]):
            raise NotSchedulableError("it is depthwise, grouped or a pooling")
        if len(roles["output_image"]) != len(_IMAGE):
            raise NotSchedulableError("it is not a 2-d convolution")
        return _described(operation, position, number, _names(roles, _CONVOLUTION), roles)
    raise NotSchedulableError("it is neither a matrix product nor a convolution")


def is_quantized(name: str) -> bool:
    """Return whether an operation of linalg takes zero points beside its tensors."""
    return name.startswith("linalg.quantized_") or (name.startswith("linalg.") and name.endswith("_q"))


def _roles(dimensions: Any, names: Mapping[str, str]) -> dict[str, list[int]]:
    return {role: list(getattr(dimensions, role)) for role in names}


def _names(roles: Mapping[str, Sequence[int]], names: Mapping[str, str]) -> dict[int, str]:
    """Return the name of each loop by its number: M, or M0 and M1 where two have the role; OH, OW, KH, KW."""
    found = {}
    for role, numbers in roles.items():
        image = role in ("output_image", "filter_loop")
        for place, number in enumerate(numbers):
            suffix = _IMAGE[place] if image else str(place) if len(numbers) > 1 else ""
            found[number] = names[role] + suffix
    return found


def _described(
    operation: Any, position: int, number: int, names: Mapping[int, str], roles: Mapping[str, Sequence[int]]
) -> Operation:
    ir, linalg = load()
    maps = linalg.get_indexing_maps(operation)
    if _MEMO in operation.attributes:  # the query leaves it there, and the operation would not be the user's any more
        del operation.attributes[_MEMO]
    accesses = [tuple(_index(ir, result, names) for result in map_.value.results) for map_ in maps]
    types = [TensorType(tuple(value.type.shape), str(value.type.element_type)) for value in operation.operands]
    sizes = _sizes(accesses, types)
    if not accesses[2] or not all(sizes.values()):
        raise NotSchedulableError("its result is one number" if not accesses[2] else "a loop of it has no steps")
    reductions = {names[item] for role in _REDUCTIONS for item in roles.get(role, ())}
    loops = tuple(Loop(names[i], sizes[names[i]], names[i] in reductions) for i in sorted(names))
    kind = _kind(roles, accesses)
    lhs, rhs, out = accesses
    return Operation(kind, f"{kind}_{number}", position, loops, (types[0], types[1]), types[2], (lhs, rhs, out))


def _index(ir: Any, expression: Any, names: Mapping[int, str]) -> Index:
    """Return an affine expression as loops with factors."""
    if isinstance(expression, ir.AffineDimExpr):
        return ((names[expression.position], 1),)
    if isinstance(expression, ir.AffineMulExpr) and isinstance(expression.rhs, ir.AffineConstantExpr):
        return tuple((loop, factor * expression.rhs.value) for loop, factor in _index(ir, expression.lhs, names))
    if isinstance(expression, ir.AffineAddExpr):
        return _index(ir, expression.lhs, names) + _index(ir, expression.rhs, names)
    raise NotSchedulableError(f"its index {expression} is not a sum of loops")


def _sizes(accesses: Sequence[Sequence[Index]], types: Sequence[TensorType]) -> dict[str, int]:
    """Return the loops' sizes: each stands alone as an index of some operand."""
    sizes = {}
    for access, type_ in zip(accesses, types, strict=True):
        for index, extent in zip(access, type_.shape, strict=True):
            if len(index) == 1 and index[0][1] == 1:
                sizes[index[0][0]] = extent
    return sizes


def _kind(roles: Mapping[str, Sequence[int]], accesses: Sequence[Sequence[Index]]) -> str:
    if "filter_loop" in roles:
        return "conv_2d"
    single = all(len(numbers) == 1 for role, numbers in roles.items() if role != "batch")
    if not single or len(roles["batch"]) > 1:
        return "contraction"
    kind = "batch_matmul" if roles["batch"] else "matmul"
    lhs, rhs = ([index[0][0] for index in access] for access in accesses[:2])
    transposed_a = lhs.index("K") < lhs.index("M")
    transposed_b = rhs.index("N") < rhs.index("K")
    return kind + "_transpose_a" * transposed_a + "_transpose_b" * transposed_b
