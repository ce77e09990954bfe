"""Records one call of a candidate's model as a `LaunchPlan`, in the candidate's own process.

What it records is a claim: the process that executes the plan checks it and compares its results.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...core.launch_plan import KernelCode, LaunchPlan, LaunchStep, ParallelStep, Step, TensorLayout, TorchStep
from ..languages.base import imported_supports
from ..workers.modules import form_of, weights_of
from .operators import BROUGHT, changes_layout
from .values import UnplannableCall, digest_of, encode, layout_of

MAX_CONSTANT_BYTES = 1 << 28
"""Constants, such as tables computed when the model is constructed, together."""
_AS_STRIDED = "aten.as_strided.default"


def launches_of(call: Callable[[], object]) -> list[tuple[str, tuple[int, ...]]]:
    """Run a call and return the digest of the code, and the grid, of each launch; sorted, since threads race.

    Raises `UntraceableCall` for a launch that cannot be reported.
    """
    found: list[tuple[str, tuple[int, ...]]] = []

    def launched(code: KernelCode, arguments: Sequence[Any], grid: Sequence[int] = ()) -> None:
        found.append((code.digest, tuple(grid)))

    with contextlib.ExitStack() as stack:
        for support in imported_supports():
            stack.enter_context(support.recording(launched))
        call()
    return sorted(found)


class Recorder:
    """Collects the steps of one call; `record` runs it."""

    def __init__(self) -> None:
        self._main = threading.get_ident()
        self._lock = threading.RLock()
        self._kept: list[Any] = []  # storages, so that no address is used twice
        self._views: dict[tuple[Any, ...], int] = {}
        self._bases: dict[int, int] = {}
        self._layouts: dict[int, TensorLayout] = {}
        self._next = 0
        self._codes: dict[str, KernelCode] = {}
        self._steps: list[Step] = []
        self._threads: list[int | None] = []
        self._failed: str | None = None
        self.constants: dict[int, Any] = {}
        """Tensors that existed before the call, beside inputs and weights, by number."""

    def record(self, model: Any, inputs: Sequence[Any]) -> LaunchPlan:
        """Run one call and return its plan. Raises `UnplannableCall` with the reason where there is none."""
        import torch

        self._given = [self._input(value) for value in inputs]
        weights = {name: self._new(tensor) for name, tensor in weights_of(model).items()}
        known = self._next
        with contextlib.ExitStack() as stack:
            for support in imported_supports():
                stack.enter_context(support.recording(self._launched))
            stack.enter_context(torch.no_grad())
            stack.enter_context(self._operators())
            result = model(*inputs)
        returned = list(result) if type(result) in (tuple, list) else [result]
        outputs = tuple(self._output(tensor) for tensor in returned)
        self._kept.clear()  # the contexts above refer to this object, and it to them
        if self._failed is not None:
            raise UnplannableCall(self._failed)
        steps = _parallel(self._steps, self._threads)
        named = {*range(known), *self.constants}
        return LaunchPlan(
            inputs=tuple(self._given),
            weights=weights,
            constants={number: _digest(tensor) for number, tensor in self.constants.items()},
            layouts={number: layout for number, layout in self._layouts.items() if number in named},
            codes=self._codes,
            steps=tuple(steps),
            outputs=outputs,
            returns=form_of(result),
        )

    def _input(self, value: Any) -> Any:
        import torch

        if isinstance(value, torch.Tensor):
            return self._new(value)
        return {"value": encode(value, self._number)}

    def _output(self, tensor: Any) -> int:
        import torch

        if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
            raise UnplannableCall(f"an output of type {type(tensor).__qualname__}")
        return self._number(tensor)

    def _new(self, tensor: Any) -> int:
        """Number a tensor."""
        _require_plain(tensor)
        number = self._next
        self._next += 1
        storage = tensor.untyped_storage()
        if storage._cdata not in self._bases:
            self._bases[storage._cdata] = number
            self._kept.append(storage)
        self._layouts[number] = layout_of(tensor)
        self._views[self._key(tensor)] = number
        return number

    def _key(self, tensor: Any) -> tuple[Any, ...]:
        layout = (tensor.storage_offset(), tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype)
        return (tensor.untyped_storage()._cdata, *layout)

    def _number(self, tensor: Any) -> int:
        """Return a tensor's number: of an equal view, of a new view of a known storage, or of a constant."""
        _require_plain(tensor)
        known = self._views.get(self._key(tensor))
        if known is not None:
            return known
        base = self._bases.get(tensor.untyped_storage()._cdata)
        if base is not None:
            return self._view(base, tensor)
        number = self._new(tensor.detach())
        self.constants[number] = tensor.detach()
        return number

    def _view(self, base: int, tensor: Any) -> int:
        """Add a view that no operator made, such as `tensor.data`."""
        layout = layout_of(tensor)
        if layout.dtype != self._layouts[base].dtype:
            raise UnplannableCall("a view of another dtype")
        number = self._new(tensor.detach())
        arguments = ({"tensor": base}, list(layout.shape), list(layout.strides), layout.offset)
        self._append(TorchStep(operator=_AS_STRIDED, args=arguments, results=(number,), layouts=(layout,)))
        return number

    def _append(self, step: Step) -> None:
        thread = threading.get_ident()
        self._steps.append(step)
        self._threads.append(None if thread == self._main else thread)

    def _launched(self, code: KernelCode, arguments: Sequence[Any], grid: Sequence[int] = ()) -> None:
        """Add a launch; called by the languages, from any thread."""
        with self._lock, _unseen():
            try:
                encoded = tuple(encode(value, self._number) for value in arguments)
            except UnplannableCall as reason:
                self._failed = self._failed or f"{code.name} is launched with {reason}"
                return
            self._codes[code.digest] = code
            self._append(LaunchStep(code=code.digest, arguments=encoded, grid=tuple(grid)))

    def _operators(self) -> Any:
        """Return a context that records every torch operator of this thread."""
        from torch.utils._python_dispatch import TorchDispatchMode

        recorder = self

        class Mode(TorchDispatchMode):  # type: ignore[misc, no-any-unimported, unused-ignore]
            @classmethod
            def _should_skip_dynamo(cls) -> bool:
                return False  # as in `profiling.op_counter`

            def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                if func.namespace not in BROUGHT:
                    with self:
                        return recorder._inside(func, args, kwargs or {})
                result = func(*args, **(kwargs or {}))
                with recorder._lock:
                    recorder._operator(func, args, kwargs or {}, result)
                return result

        return Mode()

    def _inside(self, func: Any, args: Any, kwargs: Mapping[str, Any]) -> Any:
        """Call an operator that a file registered, whose own operators and launches are recorded in its place."""
        import torch

        given = [one for one in (*args, *kwargs.values()) if isinstance(one, torch.Tensor)]
        key = "CUDA" if any(one.is_cuda for one in given) else "CPU"
        result = func.redispatch(torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, key)), *args, **kwargs)
        returned = list(result) if isinstance(result, tuple | list) else [result]
        with self._lock, _unseen():
            for one in returned:
                if isinstance(one, torch.Tensor) and one.untyped_storage()._cdata not in self._bases:
                    self._failed = self._failed or f"the operator {func}, which torch does not bring"
        return result

    def _operator(self, func: Any, args: Any, kwargs: Mapping[str, Any], result: Any) -> None:
        import torch

        name = str(func)
        if changes_layout(func):
            return  # what uses the tensor next sees another view of the same memory
        results = list(result) if isinstance(result, tuple | list) else [result]
        if not all(isinstance(one, torch.Tensor) for one in results):
            self._failed = self._failed or f"{name} reads values of a tensor into Python"
            return
        try:
            encoded = tuple(encode(value, self._number) for value in args)
            named = {key: encode(value, self._number) for key, value in kwargs.items()}
            numbers = tuple(self._new(one) for one in results)
        except UnplannableCall as reason:
            self._failed = self._failed or f"{name} with {reason}"
            return
        layouts = tuple(layout_of(one) for one in results)
        self._append(TorchStep(operator=name, args=encoded, kwargs=named, results=numbers, layouts=layouts))


def _require_plain(tensor: Any) -> None:
    import torch

    if tensor.layout != torch.strided or tensor.is_conj() or tensor.is_neg():
        raise UnplannableCall(f"a tensor of layout {tensor.layout}")


@contextlib.contextmanager
def _unseen() -> Any:
    from torch.utils._python_dispatch import _disable_current_modes

    with _disable_current_modes():
        yield


def _parallel(steps: Sequence[Step], threads: Sequence[int | None]) -> list[Step]:
    """Join launches of the same kernel on the same tensors where some came from other threads, in a fixed order."""
    found: list[Step] = []
    group: list[LaunchStep] = []
    elsewhere = False

    def close() -> None:
        if len(group) > 1 and elsewhere:
            found.append(ParallelStep(launches=tuple(sorted(group, key=lambda one: repr(one.arguments)))))
        else:
            found.extend(group)
        group.clear()

    for step, thread in zip(steps, threads, strict=True):
        if isinstance(step, LaunchStep):
            if group and (step.code, _tensors(step)) != (group[0].code, _tensors(group[0])):
                close()
                elsewhere = False
            group.append(step)
            elsewhere = elsewhere or thread is not None
        else:
            close()
            elsewhere = False
            found.append(step)
    close()
    return found


def _tensors(step: LaunchStep) -> list[Any]:
    return [value for value in step.arguments if isinstance(value, dict)]


def _digest(tensor: Any) -> str:
    if tensor.numel() * tensor.element_size() > MAX_CONSTANT_BYTES:
        raise UnplannableCall("a constant tensor of more than 256 MB; compute it in forward")
    with _unseen():
        return digest_of(tensor)
