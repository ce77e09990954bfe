"""The torch operators that a plan may contain."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ..profiling.operator_kinds import classify, is_replaced_by_parts
from .values import UnplannableCallError

BROUGHT = ("aten", "prims")
"""Namespaces of torch's own operators."""
_NAME = re.compile(rf"({'|'.join(BROUGHT)})\.(\w+)\.(\w+)")
_RANDOM = re.compile(
    r"(rand|bernoulli|dropout|multinomial|normal_?$|uniform|exponential|geometric|cauchy|poisson|random)"
)
ALLOCATIONS = frozenset(
    f"aten.{name}"
    for name in (
        "empty.memory_format", "empty_strided.default", "empty_permuted.default", "empty_like.default",
        "new_empty.default", "new_empty_strided.default",
    )
)  # fmt: skip
"""Operators that only allocate. What they return is reserved before a batch of calls (`PlanExecutor.reserve`)."""
_UNWRITTEN = re.compile(r"empty|resize")
"""Part of the names of operators that return uninitialized memory; only that of `ALLOCATIONS` is overwritten."""
_NEVER = frozenset({"from_file", "requires_grad_", "_lazy_clone"})
"""Operators that read files, change how others are executed, or compute only when their result is read."""
_TENSORS = ("Tensor", "List[Tensor]")
_ATTENTION = frozenset({
    "_scaled_dot_product_flash_attention", "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_cudnn_attention", "_scaled_dot_product_fused_attention_overrideable",
})  # fmt: skip
"""Torch's attention on a GPU: beside its result it returns sizes, and memory that only a gradient reads."""
_DROPOUT = "dropout_p"


def changes_layout(operator: Any) -> bool:
    """Return whether an operator changes where a tensor's elements lie, and not what they are, as `resize_` does."""
    import torch

    return torch.Tag.inplace_view in operator.tags


def returns_first(operator: Any) -> bool:
    """Return whether a plan has only the first of an operator's results, as of an attention's."""
    return operator.namespace == "aten" and operator._schema.name.removeprefix("aten::") in _ATTENTION


def require_repeatable(operator: Any, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> None:
    """Raise `UnplannableCallError` for an attention with dropout, whose result is another in each call."""
    if not returns_first(operator):
        return
    names = [item.name for item in operator._schema.arguments]
    if {**dict(zip(names, arguments, strict=False)), **keywords}.get(_DROPOUT, 0.0) != 0.0:
        raise UnplannableCallError(f"the operator {operator} with dropout, which draws random numbers")


def allowed_operator(name: str) -> Any:
    """Return torch's operator of this name. Raises `UnplannableCallError` for one that a plan may not contain.

    It computes tensors from tensors: nothing that it returns is anything else, so it has no other purpose. Tensors of
    others keep their memory: what a resized one hides behind its end would last. How much of the work torch may do is
    another question: `guards.torch_share` answers it.
    """
    import torch

    match = _NAME.fullmatch(name)
    if match is None:
        raise UnplannableCallError(f"the operator {name}, which is not part of torch")
    space, packet, overload = match.groups()
    if packet in _NEVER:
        raise UnplannableCallError(f"the operator {name}")
    if _UNWRITTEN.search(packet) and name not in ALLOCATIONS:
        raise UnplannableCallError(f"the operator {name}, which returns memory that it has not written to")
    if _RANDOM.match(packet.lstrip("_").removeprefix("native_")):
        raise UnplannableCallError(f"the operator {name}, which draws random numbers")
    found = getattr(getattr(getattr(torch.ops, space), packet, None), overload, None)
    if found is None or not torch._C._dispatch_has_kernel(found.name()):
        raise UnplannableCallError(f"the operator {name}, which this torch does not have")
    returned = [str(item.type) for item in found._schema.returns]
    tensors = returned[:1] if returns_first(found) else returned
    if not returned or not set(tensors) <= set(_TENSORS) or changes_layout(found):
        raise UnplannableCallError(f"the operator {name}, which does something else than to compute a tensor")
    return found


def kind_of(name: str) -> str:
    """Return the kind of an operator, as `profiling.operator_kinds` has them. Raises `UnplannableCallError`."""
    return kind_and_family(name)[0]


def kind_and_family(name: str) -> tuple[str, str]:
    """Return kind and family of an operator. Raises `UnplannableCallError`."""
    found = allowed_operator(name)
    # What torch replaces by parts may return a view or a copy, as `contiguous` does; a recording has the parts.
    is_view = found.is_view and not is_replaced_by_parts(found)
    return classify(found.overloadpacket.__name__, found.namespace, {tag.name for tag in found.tags}, is_view)
