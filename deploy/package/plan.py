"""Plans of calls: the steps of a kernel's Python in one call, which later calls with the same key repeat.

A call allocates tensors, takes views, calls operators of torch and launches kernels. `CallRecorder` notes these steps
with the origin of each tensor; a `CallPlan` does them again with other tensors, without the kernel's Python. What a
step needs besides tensors (grids, numbers, compiled code) was the same for all calls of the key, and is kept.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

_ACTIVE = threading.local()
_LOCK = threading.RLock()
_aten = torch.ops.aten
_EMPTY = {
    _aten.empty.memory_format, _aten.empty_strided.default, _aten.empty_like.default, _aten.new_empty.default,
    _aten.new_empty_strided.default,
}  # fmt: skip
_UNSURE = (torch.Tag.nondeterministic_seeded, torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape)
Run = Callable[[list[Any]], Any]
"""Does a step with the tensors so far, and returns the new one, or a tuple of them."""


def recorder() -> CallRecorder | None:
    """Return what records this thread's calls at present."""
    found: CallRecorder | None = getattr(_ACTIVE, "recorder", None)
    return found


@dataclass(frozen=True)
class _PlanStep:
    """One step: its function, the tensors that it needs, and those that it makes."""

    bind: Callable[[dict[int, int]], Run]
    """Return the function of the step, given the place of each tensor in a plan."""
    needs: frozenset[int]
    makes: tuple[int, ...] = ()
    """Numbers of the new tensors."""
    writes: bool = False
    """Whether it may write to earlier tensors, so that it is needed even if its own are not."""


class CallPlan:
    """The steps of a call."""

    def __init__(self, steps: Sequence[tuple[Run, int]], results: Sequence[int], returns_tuple: bool) -> None:
        self._steps = tuple(steps)
        self._results = tuple(results)
        self._tuple = returns_tuple

    def __call__(self, arguments: Sequence[Any]) -> Any:
        """Return new outputs."""
        tensors = [*arguments]
        for run, makes in self._steps:
            made = run(tensors)
            if makes == 1:
                tensors.append(made)
            elif makes:
                tensors.extend(made)
        if self._tuple:
            return tuple(tensors[place] for place in self._results)
        return tensors[self._results[0]]


class CallRecorder(TorchDispatchMode):  # type: ignore[misc]
    """Records one call with these arguments."""

    def __init__(self, arguments: Sequence[Any]) -> None:
        super().__init__()
        self._kept = list(arguments)  # each keeps its id while the call lasts
        self._numbers = {id(item): number for number, item in enumerate(arguments) if isinstance(item, torch.Tensor)}
        self._given = len(self._kept)
        self._roots: dict[int, int] = {number: number for number in self._numbers.values()}
        self._steps: list[_PlanStep] = []
        self._open = True
        self._paused = False

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """Record what this thread calls within."""
        _ACTIVE.recorder = self
        try:
            with self, _tilelang_calls():
                yield
        finally:
            _ACTIVE.recorder = None

    def refuse(self) -> None:
        """Note that the call cannot be repeated from its steps."""
        self._open = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call an operator of torch, and note it."""
        result = func(*args, **(kwargs or {}))
        if self._open and not self._paused:
            self._note_operator(func, args, kwargs or {}, result)
        return result

    def launch(self, kernel: Callable[..., Any], values: Sequence[Any]) -> None:
        """Note the launch of a compiled kernel with these arguments in order."""
        pointers, described = list[tuple[int, int, int]](), list[tuple[int, int, Any]]()
        kept = list(values)
        for where, value in enumerate(values):
            item = value.base if type(value).__name__ == "TensorDescriptor" else value
            if isinstance(item, torch.Tensor):
                number = self._numbers.get(id(item))
                if number is None:  # it was not made in this call
                    return self.refuse()
                root = self._roots[number]
                if item is not value:  # a descriptor needs its own tensor
                    described.append((where, number, _with_base(value)))
                else:  # a pointer the memory that it is in
                    begin = self._kept[root].data_ptr() if item.numel() else item.data_ptr()
                    pointers.append((where, root, item.data_ptr() - begin))
                kept[where] = None
        needs = frozenset(number for _, number, _ in (*pointers, *described))
        if any(isinstance(value, tuple | list) for value in values):
            return self.refuse()

        def bind(slots: dict[int, int]) -> Run:
            places = [(where, slots[number], offset) for where, number, offset in pointers]
            makers = [(where, slots[number], make) for where, number, make in described]

            def run(tensors: list[Any]) -> None:
                given = kept.copy()
                for where, slot, offset in places:
                    given[where] = tensors[slot].data_ptr() + offset if offset else tensors[slot]
                for where, slot, make in makers:
                    given[where] = make(tensors[slot])
                kernel(*given)

            return run

        self._steps.append(_PlanStep(bind, needs, writes=True))
        return None

    def call(self, kernel: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a compiled kernel that makes its outputs itself, and note it."""
        self._paused = True
        try:
            result = kernel(*args, **kwargs)
        finally:
            self._paused = False
        if self._open:
            self._note(_without_gradients(kernel), args, kwargs, result, writes=True)
        return result

    def plan(self, outputs: Sequence[torch.Tensor], returns_tuple: bool) -> CallPlan | None:
        """Return the plan of a call with these outputs; None if its steps do not repeat it."""
        numbers = [self._numbers.get(id(item)) for item in outputs]
        known = [number for number in numbers if number is not None]
        roots = {self._roots[number] for number in known}
        new = len(known) == len(numbers) == len(roots) and min(roots) >= self._given
        if not self._open or not new or not all(item.is_contiguous() for item in outputs):
            return None
        needed, steps = set(known), list[_PlanStep]()
        for step in reversed(self._steps):
            if step.writes or needed.intersection(step.makes):
                steps.insert(0, step)
                needed |= step.needs
        slots = {number: number for number in range(self._given)}
        bound = []
        for step in steps:
            bound.append((step.bind(slots), len(step.makes)))
            for number in step.makes:
                slots[number] = len(slots)
        return CallPlan(bound, [slots[number] for number in known], returns_tuple)

    def _note_operator(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        if any(tag in func.tags for tag in _UNSURE):
            return self.refuse()
        leaves = tree_leaves((args, kwargs, result))
        if len({item.device for item in leaves if isinstance(item, torch.Tensor)}) > 1:
            return self.refuse()  # a copy to the host is there to be read
        if func in _EMPTY:
            make = functools.partial(
                torch.empty_strided, tuple(result.shape), result.stride(), dtype=result.dtype, device=result.device
            )
            number = self._new(result)
            self._steps.append(_PlanStep(lambda _: lambda _: make(), frozenset(), (number,)))
            return None
        return self._note(func, args, kwargs, result, func._schema.is_mutable)

    def _note(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any, writes: bool) -> None:
        leaves, tree = tree_flatten((args, kwargs))
        tensors = [(place, leaf) for place, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        numbers = {place: self._numbers.get(id(leaf), -1) for place, leaf in tensors}
        made = list(result) if isinstance(result, tuple | list) else [] if result is None else [result]
        if len(made) == 1 and made[0] is not result:
            return self.refuse()
        known = [isinstance(item, torch.Tensor) and id(item) in self._numbers for item in made]
        if -1 in numbers.values() or not all(isinstance(item, torch.Tensor) for item in made) or len({*known}) > 1:
            return self.refuse()
        makes = () if any(known) else tuple(map(self._new, made))
        kept = [None if place in numbers else leaf for place, leaf in enumerate(leaves)]
        plain = tree == tree_flatten(((None,) * len(args), {}))[1]

        def bind(slots: dict[int, int]) -> Run:
            places = [(place, slots[number]) for place, number in numbers.items()]

            def run(tensors: list[Any]) -> Any:
                given = kept.copy()
                for place, slot in places:
                    given[place] = tensors[slot]
                if plain:
                    return func(*given)
                positional, named = tree_unflatten(given, tree)
                return func(*positional, **named)

            return run

        self._steps.append(_PlanStep(bind, frozenset(numbers.values()), makes, writes))
        return None

    def _new(self, tensor: torch.Tensor) -> int:
        """Return the number of a new tensor, which may share memory with another one."""
        number = len(self._kept)
        roots = {*self._roots.values()}
        shared = (root for root in roots if torch._C._is_alias_of(self._kept[root], tensor))
        self._roots[number] = next(shared, number)
        self._kept.append(tensor)
        self._numbers[id(tensor)] = number
        return number


@contextlib.contextmanager
def _tilelang_calls() -> Iterator[None]:
    """Tell the recorder of a thread about calls of TileLang's kernels."""
    tilelang = sys.modules.get("tilelang")
    if tilelang is None:
        yield
        return
    kernels = tilelang.JITKernel
    with _LOCK:
        own = kernels.__call__

        def call(kernel: Any, *args: Any, **kwargs: Any) -> Any:
            active = recorder()
            if active is None:
                return own(kernel, *args, **kwargs)
            return active.call(kernel.torch_function, args, kwargs)

        kernels.__call__ = call
        try:
            yield
        finally:
            kernels.__call__ = own


def _without_gradients(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Return a kernel that ignores whether tensors require gradients."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return kernel(*[item.detach() if getattr(item, "requires_grad", False) else item for item in args], **kwargs)

    return call


def _with_base(descriptor: Any) -> Callable[[torch.Tensor], Any]:
    """Return a function that makes tensor descriptors like this one, which was checked when it was made."""
    kind, fields = type(descriptor), {**vars(descriptor), "base": None}

    def make(tensor: torch.Tensor) -> Any:
        made = object.__new__(kind)
        made.__dict__.update(fields)
        made.base = tensor
        return made

    return make
