"""Arguments that a plan's launches pass to generated C, known before they run: sizes of tensors, and integers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...core.launch_plan import KernelCode, LaunchPlan, LaunchStep, TensorLayout, TorchStep
from .generated_c import Given, Interval
from .values import UnplannableCallError, dtype_of, numbers_in

MAX_COMPILED = 64
"""Most functions of generated C in a plan: there is one per code and tensor sizes."""
_Sizes = tuple[int | None, ...]


class CArguments:
    """The arguments of a plan's launches of generated C. Launches whose tensors have equal sizes share a function.

    Raises `UnplannableCallError` where there would be too many functions.
    """

    def __init__(self, plan: LaunchPlan, codes: Mapping[str, KernelCode]) -> None:
        """`codes` are the plan's, by digest, as they are compiled."""
        made = [step for step in plan.steps if isinstance(step, TorchStep)]
        self._layouts = plan.layouts | {
            number: layout for step in made for number, layout in zip(step.results, step.layouts, strict=False)
        }
        self._codes = {digest for digest, code in codes.items() if code.kind == "c"}
        self._ranges: dict[tuple[str, _Sizes], list[Interval | None]] = {}
        for launch in plan.launches():
            if launch.code in self._codes:
                self._add(launch)
        if len(self._ranges) > MAX_COMPILED:
            raise UnplannableCallError(f"{len(self._ranges)} sizes of tensors of its kernels, more than {MAX_COMPILED}")

    def functions(self) -> Iterator[tuple[str, Given]]:
        """Yield what is to be compiled: the digest of the plan's code, and what it is given."""
        for digest, sizes in self._ranges:
            yield digest, self._given(digest, sizes)

    def of(self, launch: LaunchStep) -> Given | None:
        """Return what a launch gives, together with all others that share its function; None where it is not C."""
        return self._given(launch.code, self._sizes(launch)) if launch.code in self._codes else None

    def _given(self, digest: str, sizes: _Sizes) -> Given:
        ranges = self._ranges[digest, sizes]
        return Given(tuple(extent if size is None else size for size, extent in zip(sizes, ranges, strict=True)))

    def _add(self, launch: LaunchStep) -> None:
        ranges = [
            Interval(int(argument), int(argument)) if isinstance(argument, int) else None
            for argument in launch.arguments
        ]
        known = self._ranges.setdefault((launch.code, self._sizes(launch)), ranges)
        for number, (mine, theirs) in enumerate(zip(known, ranges, strict=True)):
            known[number] = mine | theirs if mine is not None and theirs is not None else None

    def _sizes(self, launch: LaunchStep) -> _Sizes:
        return tuple(self._size(form) for form in launch.arguments)

    def _size(self, form: Any) -> int | None:
        numbers = numbers_in(form)
        if not numbers:
            return None
        layout = self._layouts.get(numbers[0])
        if layout is None:
            raise UnplannableCallError("a launch on a tensor without a layout")
        return reach(layout)


def reach(layout: TensorLayout) -> int:
    """Return the bytes from a tensor's first element to the end of its last."""
    if not layout.elements:
        return 0
    last = sum((extent - 1) * stride for extent, stride in zip(layout.shape, layout.strides, strict=True))
    return int((last + 1) * dtype_of(layout).itemsize)


def require_reach(tensor: Any, size: int) -> None:
    """Raise `UnplannableCallError` unless a tensor's memory has as many bytes as its layout in the plan says."""
    left = tensor.untyped_storage().nbytes() - tensor.storage_offset() * tensor.element_size()
    if left < size or (size and not tensor.data_ptr()):
        raise UnplannableCallError("a tensor that is smaller than the plan says")
