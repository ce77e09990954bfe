"""Contexts that report a thread's calls of torch: operators, and lists made of tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..profiling.operator_kinds import is_replaced_by_parts
from ..profiling.products import tensors_in
from .operators import BROUGHT

_LISTS = ("tolist", "numpy", "__array__")
Operator = Callable[[Any, Any, Mapping[str, Any], Any], None]
"""Takes an operator, its arguments by position and by name, and its result."""
ForeignOperator = Callable[[Any, Any, Mapping[str, Any]], Any]
"""Calls an operator that is not part of torch, and returns its result."""


def lists_observed(on_list: Callable[[str, Sequence[Any]], None]) -> Any:
    """Return a context that tells of tensors of which this thread makes lists: on a CPU no operator does that."""
    from torch.overrides import TorchFunctionMode

    class ListMode(TorchFunctionMode):  # type: ignore[misc, no-any-unimported, unused-ignore]
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if (name := getattr(func, "__name__", "")) in _LISTS:
                on_list(name, tensors_in(args))
            return func(*args, **(kwargs or {}))

    return ListMode()


def operators_observed(on_operator: Operator, call_foreign: ForeignOperator) -> Any:
    """Return a context that tells of every torch operator of this thread, also of those that foreign ones call."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    class RecordingMode(TorchDispatchMode):  # type: ignore[misc, no-any-unimported, unused-ignore]
        @classmethod
        def _should_skip_dynamo(cls) -> bool:
            return False  # as in `profiling.op_counter`

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func.namespace not in BROUGHT:
                with self:
                    return call_foreign(func, args, kwargs or {})
            if is_replaced_by_parts(func):
                with self:  # in inference mode torch has not done so
                    return func._op_dk(torch._C.DispatchKey.CompositeImplicitAutograd, *args, **(kwargs or {}))
            result = func(*args, **(kwargs or {}))
            on_operator(func, args, kwargs or {}, result)
            return result

    return RecordingMode()
