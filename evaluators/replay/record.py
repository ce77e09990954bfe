"""Records one call of a candidate's model as a `LaunchPlan`, in the candidate's own process.

What it records is a claim: the process that executes the plan checks it and compares its results.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...core.launch_plan import KernelCode, LaunchPlan, LaunchStep, TorchStep
from ..languages.base import imported_supports
from ..profiling.products import tensors_in
from ..workers.modules import form_of, is_continuous, unobserved, weights_of
from ..workers.user_call import Layout
from .constants import Kept, digest_of_constant
from .observed_operators import lists_observed, operators_observed
from .operators import ALLOCATIONS, changes_layout, require_repeatable, returns_first
from .turns import RecordedStep, TensorPlace, Turns
from .values import UnplannableCallError, encode, layout_of, numbers_in

_AS_STRIDED = "aten.as_strided.default"
_COPY = "aten.copy_.default"


def launches_of(call: Callable[[], object]) -> list[tuple[str, tuple[int, ...]]]:
    """Run a call and return the digest of the code, and the grid, of each launch; sorted, since threads race.

    Raises `UntraceableCallError` for a launch that cannot be reported.
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
    """Collects the steps of one call; `record` runs it.

    What `packing` recorded made tensors of the weights, that the call may use like weights. `earlier` is what an
    earlier call used besides inputs and weights: only those were certainly not made by this call.
    Without it, the call is recorded only to see what it uses.
    """

    def __init__(
        self, packing: Recorder | None = None, earlier: Recorder | None = None, reads_integers: bool = False
    ) -> None:
        """`reads_integers` allows a call to read integers and flags into Python, which are not steps of its plan."""
        self._may_read = reads_integers
        self.reads = False
        """Whether the call was seen to read integers into Python, where it may."""
        self._packing = packing
        self._packed: dict[int, int] = {}  # numbers of tensors that it made, and those that it gave them
        self._before = None if earlier is None else [Kept.of(tensor) for tensor in earlier.constants.values()]
        self._main = threading.get_ident()
        self._lock = threading.RLock()
        self._kept: list[Any] = []  # storages, so that no address is used twice
        self._views: dict[tuple[Any, ...], int] = {}
        self._bases: dict[int, int] = {}
        self._places: dict[int, TensorPlace] = {}
        self._named: dict[str, int] = {}  # weights
        self._next = 0
        self._fixed = 0
        self._codes: dict[str, KernelCode] = {}
        self._steps: list[RecordedStep] = []
        self._scratch: set[int] = set()  # storages that were allocated, and not used yet
        self._failed: str | None = None
        self._constants: dict[int, Any] = {}
        self.constants: dict[int, Any] = {}
        """Tensors before the call other than inputs and weights, as they were then, by number in its plan."""
        self.packing_constants: Sequence[Any] = ()
        """The same of the plan's packing, in the order of that plan."""

    def record(self, model: Any, inputs: Sequence[Any]) -> LaunchPlan:
        """Run one call and return its plan. Raises `UnplannableCallError` with the reason where there is none."""
        given = [self._input(value) for value in inputs]
        weights = self._weights(model)
        result = self._run(lambda: model(*inputs))
        returned = list(result) if type(result) in (tuple, list) else [result]
        outputs = [self._output(tensor) for tensor in returned]
        self._kept.clear()  # the contexts of the run refer to this object, and it to them
        plan = self._plan(given, weights, outputs, form_of(result))
        if self._packing is None:
            return plan
        if self._packing._failed is not None:
            raise UnplannableCallError(f"where it packs its weights, {self._packing._failed}")
        packed = {self._numbers[number]: made for number, made in self._packed.items()}
        packing = self._packing._plan([], self._packing._named, [packed[number] for number in sorted(packed)], "tuple")
        if not packed:
            return plan
        self.packing_constants = [*self._packing.constants.values()]
        return plan.model_copy(update={"packing": packing, "packed": tuple(sorted(packed))})

    def record_packing(self, model: Any, load: Callable[[], object], state: Mapping[str, Any]) -> None:
        """Run what loads the weights of `state` into a model and packs them.

        The recorder of a call on that model takes this one, and makes the plan of both. `release` it afterwards.
        """
        weights = self._weights(model)
        for name, tensor in state.items():  # a hook may read these, and loading copies them
            self._views.setdefault(self._key(tensor), weights[name])
            self._bases.setdefault(tensor.untyped_storage()._cdata, weights[name])
            self._kept.append(tensor.untyped_storage())
        self._run(load)

    def release(self) -> None:
        """Free the memory that was kept so that no address is used twice."""
        self._kept.clear()

    def _run(self, call: Callable[[], Any]) -> Any:
        import torch

        with contextlib.ExitStack() as stack:
            for support in imported_supports():
                stack.enter_context(support.recording(self._launched))
            stack.enter_context(torch.no_grad())
            if self._may_read:
                stack.enter_context(lists_observed(self._read))
            stack.enter_context(operators_observed(self._observed, self._inside))
            return call()

    def _weights(self, model: Any) -> dict[str, int]:
        self._named = {name: self._new(tensor) for name, tensor in weights_of(model).items()}
        self._fixed = self._next
        return self._named

    def _plan(self, inputs: Sequence[Any], weights: Mapping[str, int], outputs: Sequence[int], form: Any) -> LaunchPlan:
        """Return what was recorded. Raises `UnplannableCallError`."""
        if self._failed is not None:
            raise UnplannableCallError(self._failed)
        turns = Turns(self._steps, self._places, self._codes, self._fixed)
        self._numbers = turns.numbers
        constants = {self._numbers[number]: tensor for number, tensor in self._constants.items()}
        self.constants = {number: constants[number] for number in sorted(constants)}
        named = {*range(self._fixed), *self.constants, *(self._numbers[item] for item in self._packed)}
        layouts = {self._numbers[number]: place.layout for number, place in self._places.items()}
        return LaunchPlan(
            inputs=tuple(inputs),
            weights=dict(weights),
            constants={number: digest_of_constant(tensor) for number, tensor in self.constants.items()},
            layouts={number: layout for number, layout in sorted(layouts.items()) if number in named},
            codes=self._codes,
            steps=tuple(turns.steps),
            outputs=tuple(self._numbers[number] for number in outputs),
            returns=form,
        )

    def _input(self, value: Any) -> Any:
        import torch

        if isinstance(value, torch.Tensor):
            return self._new(value)
        return {"value": value.text if isinstance(value, Layout) else encode(value, self._number)}

    def _output(self, tensor: Any) -> int:
        import torch

        if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
            raise UnplannableCallError(f"an output of type {type(tensor).__qualname__}")
        return self._number(tensor)

    def _new(self, tensor: Any) -> int:
        """Number a tensor. An equal view keeps the number that uses of it have: another thread may look it up now."""
        _require_plain(tensor)
        number = self._next
        self._next += 1
        storage = tensor.untyped_storage()
        if storage._cdata not in self._bases:
            self._bases[storage._cdata] = number
            self._kept.append(storage)
        self._places[number] = TensorPlace(storage._cdata, layout_of(tensor), self._thread)
        self._views.setdefault(self._key(tensor), number)
        return number

    @property
    def _thread(self) -> int | None:
        thread = threading.get_ident()
        return None if thread == self._main else thread

    def _key(self, tensor: Any) -> tuple[Any, ...]:
        layout = (tensor.storage_offset(), tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype)
        return (tensor.untyped_storage()._cdata, *layout)

    def _number(self, tensor: Any) -> int:
        """Return a tensor's number: of an equal view, of what packing made, of a new view of a known storage, or of a
        constant."""
        _require_plain(tensor)
        known = self._views.get(self._key(tensor))
        if known is not None:
            return known
        if self._packing is not None and (made := self._packing._made(tensor)) is not None:
            return self._new_packed(tensor, made)
        base = self._bases.get(tensor.untyped_storage()._cdata)
        if base is not None:
            return self._view(base, tensor)
        constant = tensor.detach()
        if self._before is not None:
            kept = next((item for item in self._before if item.holds(tensor)), None)
            if kept is None:
                raise UnplannableCallError("a tensor that the call makes without torch's operators; make it before")
            constant = kept.as_it_was(tensor)
        number = self._new(tensor.detach())
        self._constants[number] = constant
        return number

    def _made(self, tensor: Any) -> int | None:
        """Return the number of a tensor whose contents this recording made; None for another one, and for scratch
        memory that it only allocated."""
        storage = tensor.untyped_storage()._cdata
        base = self._bases.get(storage)
        return None if base is None or base < self._fixed or storage in self._scratch else self._number(tensor)

    def _new_packed(self, tensor: Any, made: int) -> int:
        if any(not stride and extent > 1 for stride, extent in zip(tensor.stride(), tensor.shape, strict=True)):
            raise UnplannableCallError("what `prepare` expanded; make it contiguous there")
        number = self._new(tensor.detach())
        place = self._places[number]
        self._places[number] = replace(place, layout=place.layout.model_copy(update={"offset": 0}))
        self._packed[number] = made
        return number

    def _view(self, base: int, tensor: Any) -> int:
        """Add a view that no operator made, such as `tensor.data`."""
        layout = layout_of(tensor)
        if layout.dtype != self._places[base].layout.dtype:
            raise UnplannableCallError("a view of another dtype")
        number = self._new(tensor.detach())
        arguments = ({"tensor": base}, list(layout.shape), list(layout.strides), layout.offset)
        step = TorchStep(operator=_AS_STRIDED, args=arguments, results=(number,), layouts=(layout,))
        self._append(step, free=True)
        return number

    def _append(self, step: TorchStep | LaunchStep, free: bool = False) -> None:
        self._steps.append(RecordedStep(step, self._thread, free))

    def _used(self, *forms: Any) -> None:
        self._scratch -= {self._places[number].storage for number in numbers_in(list(forms))}

    def _launched(self, code: KernelCode, arguments: Sequence[Any], grid: Sequence[int] = ()) -> None:
        """Add a launch; called by the languages, from any thread."""
        with self._lock, unobserved():
            try:
                encoded = tuple(encode(value, self._number) for value in arguments)
            except UnplannableCallError as reason:
                self._failed = self._failed or f"{code.name} is launched with {reason}"
                return
            self._used(*encoded)
            self._codes[code.digest] = code
            self._append(LaunchStep(code=code.digest, arguments=encoded, grid=tuple(grid)))

    def _inside(self, func: Any, args: Any, kwargs: Mapping[str, Any]) -> Any:
        """Call an operator that a file registered, whose own operators and launches are recorded in its place."""
        import torch

        given = [item for item in (*args, *kwargs.values()) if isinstance(item, torch.Tensor)]
        key = "CUDA" if any(item.is_cuda for item in given) else "CPU"
        result = func.redispatch(torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, key)), *args, **kwargs)
        returned = list(result) if isinstance(result, tuple | list) else [result]
        with self._lock, unobserved():
            for value in returned:
                if isinstance(value, torch.Tensor) and value.untyped_storage()._cdata not in self._bases:
                    self._failed = self._failed or f"the operator {func}, which is not part of torch"
        return result

    def _read(self, name: str, tensors: Sequence[Any]) -> None:
        """Note that the call reads tensors into Python, which only integers and flags may be."""
        if self._may_read and not any(map(is_continuous, tensors)):
            self.reads = True
        else:
            self._failed = self._failed or f"{name} reads values of a tensor into Python"

    def _observed(self, func: Any, args: Any, kwargs: Mapping[str, Any], result: Any) -> None:
        with self._lock:
            self._operator(func, args, kwargs, result)

    def _operator(self, func: Any, args: Any, kwargs: Mapping[str, Any], result: Any) -> None:
        import torch

        name = str(func)
        if changes_layout(func):
            return  # what uses the tensor next sees another view of the same memory
        results = list(result) if isinstance(result, tuple | list) else [result]
        if returns_first(func):
            results = results[:1]
        if not all(isinstance(item, torch.Tensor) for item in results):
            self._read(name, tensors_in([*args, *kwargs.values()]))
            return
        try:
            require_repeatable(func, args, kwargs)
            encoded = tuple(encode(value, self._number) for value in args)
            named = {key: encode(value, self._number) for key, value in kwargs.items()}
            if name == _COPY and encoded[0] == encoded[1]:
                return  # a weight that is loaded
            numbers = tuple(self._new(item) for item in results)
        except UnplannableCallError as reason:
            self._failed = self._failed or f"{name} with {reason}"
            return
        allocates = name in ALLOCATIONS
        known = not {self._bases[item.untyped_storage()._cdata] for item in results} & {*numbers}
        view = known and not any(
            argument.alias_info and argument.alias_info.is_write for argument in func._schema.arguments
        )
        if allocates:
            self._scratch |= {item.untyped_storage()._cdata for item in results}
        elif not view:
            self._used(encoded, *named.values())
        layouts = tuple(layout_of(item) for item in results)
        step = TorchStep(operator=name, args=encoded, kwargs=named, results=numbers, layouts=layouts)
        self._append(step, free=allocates or view)


def _require_plain(tensor: Any) -> None:
    import torch

    if tensor.layout != torch.strided or tensor.is_conj() or tensor.is_neg():
        raise UnplannableCallError(f"a tensor of layout {tensor.layout}")
