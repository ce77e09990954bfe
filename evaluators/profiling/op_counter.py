"""Counts the work of a call: its operators, their operations, and bytes that must or do move."""

from __future__ import annotations

import contextlib
import functools
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import thread as pools
from typing import Any, cast

from ..languages.base import imported_supports
from ..workers.channel import Message
from ..workers.modules import outputs_of
from .hidden_scores import HiddenScores
from .operator_kinds import FREE, GATHERS, LAYOUT, LEAVING, LEAVING_KIND, classify, is_replaced_by_parts
from .products import Widened, larger, product_flops, product_of, tensors_in, visible_share


def count(model: Any, inputs: Sequence[Any]) -> Message:
    """Run the model once and count the work of its operators.

    Matrix products and convolutions are counted by torch's own formulas (2 per multiply-add), every other operator as
    one operation per element that it reads or writes, whichever is more. Besides the totals, 'details' lists the
    operators as `grouped` returns them.
    """
    result, seen = observe(lambda: model(*inputs))
    ran = [operator for operator in seen if not operator["is_view"]]
    once = [*inputs, *model.parameters(), *model.buffers(), *outputs_of(result)]
    product = None
    for operator in ran:
        product = larger(product, operator["product"])
    return {
        "flops": float(sum(operator["flops"] for operator in ran)),
        "matrix_flops": float(sum(operator["matrix_flops"] for operator in ran)),
        "eager_bytes": float(sum(operator["bytes"] for operator in ran)),
        "min_bytes": float(sum(_bytes(tensor) for tensor in tensors_in(once))),
        "operators": [operator["name"] for operator in ran],
        "product": product,
        "details": grouped(seen),
    }


def grouped(seen: Sequence[Message]) -> list[Message]:
    """Group observed operators by name and element size, as fields of `guards.torch_share.Operator`, without views."""
    groups: dict[tuple[str, int], Message] = {}
    for item in seen:
        if item["is_view"]:
            continue
        key = (item["name"], item["element_bytes"])
        names = ("name", "kind", "family", "element_bytes")
        group = groups.setdefault(key, {name: item[name] for name in names} | {"calls": 0, "largest_bytes": 0.0})
        group["calls"] += 1
        for total in ("flops", "matrix_flops", "bytes"):
            group[total] = group.get(total, 0.0) + float(item[total])
        group["largest_bytes"] = max(group["largest_bytes"], float(item["bytes"]))
    return list(groups.values())


def observe(call: Callable[[], Any]) -> tuple[Any, list[Message]]:
    """Return a call's result, and every torch operator that it dispatched, in pool threads too.

    An entry has name, is_view, kind, family (see `operator_kinds`), bytes, flops, matrix_flops, element_bytes and
    product. Data that leaves torch (`Tensor.numpy`, `tolist`) is an entry of the kind 'leaving'. The copies at the
    start and end of a launch in an interpreter are not counted.
    """
    seen: list[Message] = []
    interpreted = threading.local()
    observing = functools.partial(_observing, seen, interpreted, Widened(), HiddenScores())
    with _in_threads(observing), _interpreter_marked(interpreted), observing():
        result = call()
    return result, seen


@contextlib.contextmanager
def _observing(
    seen: list[Message], interpreted: threading.local, widened: Widened, hidden: HiddenScores
) -> Iterator[None]:
    """Enter both of torch's modes, which apply to one thread."""
    import torch
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode

    def ours(kind: str) -> bool:
        return not (getattr(interpreted, "depth", 0) and kind in (FREE, LAYOUT, LEAVING_KIND))

    class Operators(TorchDispatchMode):  # type: ignore[misc]  # torch is not type-checked
        @classmethod
        def _should_skip_dynamo(cls) -> bool:
            return False  # else torch imports its compiler: a second

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            if (own := _python_operator(func, args)) is not None:
                with self, contextlib.nullcontext() if torch._C._len_torch_function_stack() else Leaving():
                    return own(*args, **kwargs)
            if is_replaced_by_parts(func):
                # Within such an operator: elsewhere torch has replaced it by its parts before.
                with self:
                    return func._op_dk(torch._C.DispatchKey.CompositeImplicitAutograd, *args, **kwargs)
            result = func(*args, **kwargs)
            operator = _describe(func, args, kwargs, result, widened)
            widened.note(func, args, result)
            if operator is not None:
                hidden.note(func, args, result, operator)
            if operator is not None and ours(operator["kind"]):
                seen.append(operator)
            return result

    class Leaving(TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            name = getattr(func, "__name__", "")
            # On a GPU TileLang itself passes tensors this way, and the profiler shows whose kernels run.
            leaves = name in LEAVING or (name == "__dlpack__" and args[0].device.type == "cpu")
            if leaves and ours(LEAVING_KIND):
                seen.append(_left(name, args[0]))
            return func(*args, **(kwargs or {}))

    with Operators(), Leaving():
        yield


def _python_operator(func: Any, args: Sequence[Any]) -> Callable[..., Any] | None:
    """Return the function behind an operator that was registered with `torch.library.custom_op`; None for others.

    What counts is the operators that it calls.
    """
    from torch._library import custom_ops

    found: Any = custom_ops.OPDEFS.get(func._schema.name)
    if found is None:
        return None
    device = next((tensor.device.type for tensor in tensors_in(args)), None)
    functions: dict[str | None, Callable[..., Any]] = found._backend_fns
    return functions.get(device, functions.get(None))


def _describe(func: Any, args: Sequence[Any], kwargs: Message, result: Any, widened: Widened) -> Message | None:
    """Describe one operator; None when it wrote no tensor."""
    from torch.utils.flop_counter import flop_registry

    read, written = tensors_in([*args, *kwargs.values()]), tensors_in(result)
    if not written:
        return None
    name = func.overloadpacket.__name__
    kind, family = classify(name, func.namespace, {tag.name for tag in func.tags}, func.is_view)
    formula = flop_registry.get(func.overloadpacket)
    matrix_flops = product_flops(name, args)
    if formula:
        # Torch has one for operators that take other arguments, too, and older ones refuse grouped queries.
        with contextlib.suppress(TypeError, AssertionError):
            matrix_flops = float(formula(*args, **kwargs, out_val=result))
    matrix_flops *= visible_share(func, args, kwargs)
    elements = float(max((math.prod(tensor.shape) for tensor in [*read, *written]), default=0))
    return {
        "name": name,
        "is_view": bool(func.is_view),
        "kind": kind,
        "family": family,
        "bytes": _moved(family, _different(read), written),
        "flops": matrix_flops or elements,
        "matrix_flops": matrix_flops,
        "element_bytes": max((tensor.element_size() for tensor in read), default=written[0].element_size()),
        "product": product_of(name, args, result, widened),
    }


def _moved(family: str, read: Sequence[Any], written: Sequence[Any]) -> float:
    """Return the bytes read and written; a look-up reads no more of its table than it writes.

    `read` are different tensors: a square reads its tensor once, although it is passed twice.
    """
    sizes, out = [_bytes(tensor) for tensor in read], sum(_bytes(tensor) for tensor in written)
    if family == GATHERS and sizes:
        sizes[0] = min(sizes[0], out)
    return float(sum(sizes) + out)


def _left(name: str, tensor: Any) -> Message:
    return {
        "name": name,
        "is_view": False,
        "kind": LEAVING_KIND,
        "family": LEAVING_KIND,
        "bytes": float(_bytes(tensor)),
        "flops": 0.0,
        "matrix_flops": 0.0,
        "element_bytes": tensor.element_size(),
        "product": None,
    }


@contextlib.contextmanager
def _in_threads(observing: Callable[[], contextlib.AbstractContextManager[None]]) -> Iterator[None]:
    """Make existing threads of pools, and those started meanwhile, observe too."""
    module: Any = pools
    item, thread, pool_thread = module._WorkItem, cast(Any, threading.Thread), module._worker
    really_run, really_begin = item.run, thread._bootstrap_inner

    def run(self: Any, *args: Any) -> None:
        with observing():
            really_run(self, *args)

    def begin(self: Any) -> None:
        # A pool's thread continues after the call, so it observes work item by work item.
        pooled = getattr(self, "_target", None) is pool_thread
        with contextlib.nullcontext() if pooled else observing():
            really_begin(self)

    item.run, thread._bootstrap_inner = run, begin
    try:
        yield
    finally:
        item.run, thread._bootstrap_inner = really_run, really_begin


@contextlib.contextmanager
def _interpreter_marked(interpreted: threading.local) -> Iterator[None]:
    """Keep `interpreted.depth` above zero while an interpreter runs a launch."""

    @contextlib.contextmanager
    def launch() -> Iterator[None]:
        interpreted.depth = getattr(interpreted, "depth", 0) + 1
        try:
            yield
        finally:
            interpreted.depth -= 1

    with contextlib.ExitStack() as stack:
        for support in imported_supports():
            stack.enter_context(support.interpreting(launch))
        yield


def _different(tensors: Sequence[Any]) -> list[Any]:
    return list({id(tensor): tensor for tensor in tensors}.values())


def _bytes(tensor: Any) -> int:
    """Return the bytes of its elements; an expanded tensor has no more than its storage."""
    size: int = tensor.numel() * tensor.element_size()
    with contextlib.suppress(RuntimeError):  # a sparse tensor has no storage
        size = min(size, tensor.untyped_storage().nbytes())
    return size
