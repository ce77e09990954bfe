"""Executes a launch plan on given inputs and weights, in a process that has never loaded the candidate's Python."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from ...core.launch_plan import LaunchPlan, LaunchStep, ParallelStep, TensorLayout, TorchStep
from ..correctness.side_effects import WrittenWeights
from ..profiling.operator_kinds import FREE
from ..workers.channel import Message
from ..workers.one_thread import OneThread
from .c_arguments import CArguments
from .code import Launcher, load_together
from .generated_c import Given
from .operators import ALLOCATIONS, allowed_operator, kind_of, require_repeatable, returns_first
from .plan_checks import check_references
from .random_bytes import RandomBytes
from .saved import not_a_plan, read_constants
from .threads import Threads
from .tir.cpu import generated_c
from .values import UnplannableCallError, argument, dtype_of, layout_of, numbers_in
from .walls import Form, Walled, Walls

_NOT_RESIZABLE = "not resizable"
"""In torch's message where an operator would need more memory than there is between walls."""


class PlanExecutor:
    """A checked and compiled plan; call it with inputs and weights.

    Raises `UnplannableCallError` where the plan contains anything but launches and allowed operators over its own
    tensors. `folder` keeps compiled code; `constants` are the tensors that the plan names so. `packing` executes the
    plan's own one of that name. Memory for constants, for what is packed, and for what the plan only allocates, lies
    between `walls`.
    """

    def __init__(
        self,
        plan: LaunchPlan,
        constants: Mapping[int, Any],
        folder: Path,
        device: str,
        packing: PlanExecutor | None = None,
        walls: Walls | None = None,
    ) -> None:
        check_references(plan)
        self.plan = plan
        self.packing = packing
        self.packed: dict[int, Any] = {}
        """Tensors that `packing` derived from the weights, by number."""
        self._packed_memory: list[Walled] = []
        self._device = device
        self._walls = walls or Walls(device)
        self._first = constants
        walled, held = self._between_walls(
            [Form.of(tensor) for tensor in constants.values()], [f"constant {number}" for number in constants]
        )
        self._kept: list[Walled] = []  # as long as the plan
        self._kept.append(walled)
        self.constants = dict(zip(constants, held, strict=True))
        self._put_constants_back()
        self._allocated = _allocated(plan)
        self._reserved: list[dict[int, Any]] = []
        self._spoiled: list[list[Any]] = []  # the bytes of each
        self._walled: list[Walled] = []
        self._random = RandomBytes(device)
        # On a CPU one thread writes: torch's pool would spin through the first milliseconds of the next call.
        self._one_thread = OneThread() if device == "cpu" else contextlib.nullcontext()
        self._scratch: list[Any] = []
        self._launchers = self._loaded(folder)
        self._steps = [self._step(step) for step in plan.steps]
        most = max((len(step.launches) for step in plan.steps if isinstance(step, ParallelStep)), default=1)
        self._threads = Threads(most)

    def __call__(self, inputs: Sequence[Any], weights: Mapping[str, Any], place: int | None = None) -> Any:
        """Return what the recorded call would have returned; the arguments must fit (`require_fit`).

        Memory that the plan only allocates is what `reserve` made for this place, or new without one.
        """
        tensors = self._given(inputs, weights, place)
        for step in self._steps:
            step(tensors)
        outputs = [tensors[number] for number in self.plan.outputs]
        if self.plan.returns == "tensor":
            return outputs[0]
        return tuple(outputs) if self.plan.returns == "tuple" else outputs

    def torch_steps(self, inputs: Sequence[Any], weights: Mapping[str, Any]) -> list[tuple[str, Callable[[], None]]]:
        """Make a call; return its torch operators, all but allocations and views, by name, each with what repeats it.

        Each works once more on the tensors that it had; what it writes to is a copy. Memory for one call is reserved.
        """
        tensors = self._given(inputs, weights, 0)
        found: list[tuple[str, Callable[[], None]]] = []
        for planned, step in zip(self.plan.steps, self._steps, strict=True):
            if isinstance(planned, TorchStep) and kind_of(planned.operator) != FREE:
                written = allowed_operator(planned.operator)._schema.is_mutable
                used = {item: tensors[item] for item in numbers_in([planned.args, list(planned.kwargs.values())])}
                kept = {number: tensor.clone() if written else tensor for number, tensor in used.items()}
                found.append((planned.operator, partial(step, kept)))
            step(tensors)
        return found

    def _given(self, inputs: Sequence[Any], weights: Mapping[str, Any], place: int | None) -> dict[int, Any]:
        """Return the tensors that exist before a call, by number."""
        tensors: dict[int, Any] = {**self.constants, **self.packed}
        if place is not None:
            tensors.update(self._reserved[place])
        for given, value in zip(self.plan.inputs, inputs, strict=True):
            if isinstance(given, int):
                tensors[given] = value
        for name, number in self.plan.weights.items():
            tensors[number] = weights[name]
        self._scratch.clear()
        return tensors

    def pack(self, weights: Mapping[str, Any]) -> None:
        """Make `packed` of weights that fit: before the first call, and again where there are others.

        It stays in the same memory. Raises `UnplannableCallError`.
        """
        if self.packing is None:
            return
        self.packing.reserve(1)
        before = WrittenWeights(weights)
        made = self.packing([], weights, 0)
        if written := before.names():
            raise UnplannableCallError(
                f"what packs its weights writes to {written[0]}; it must make tensors of its own"
            )
        for number, tensor in zip(self.plan.packed, made, strict=True):
            layout = self.plan.layouts[number]
            if layout_of(tensor).model_copy(update={"offset": 0}) != layout:
                raise UnplannableCallError(f"what packs its weights makes another tensor than {layout}")
            if number not in self.packed:
                walled, (self.packed[number],) = self._between_walls([_form(layout)], [f"packed tensor {number}"])
                self._packed_memory.append(walled)
            self.packed[number].copy_(tensor)
        self.packing.release()

    def captured(self, inputs: Sequence[Any], weights: Mapping[str, Any]) -> Callable[[], Any]:
        """Return the plan as a CUDA graph on these tensors: each call runs it on what they contain then.

        The result lies in the same memory after every call.
        """
        import torch

        with torch.no_grad(), torch.cuda.stream(torch.cuda.Stream()):
            self(inputs, weights)  # what is loaded at the first launch cannot be captured
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                result = self(inputs, weights)

        kept = result, self, inputs, weights  # the graph has only their addresses

        def run() -> Any:
            graph.replay()
            return kept[0]

        return run

    def reserve(self, places: int) -> None:
        """Allocate, or overwrite, the memory of this many calls; undo what earlier ones left in constants.

        A call finds nothing of another one in its memory, and does not wait for the system to provide it.
        """
        with self._one_thread:
            self._make_room(range(len(self._reserved), places))
            for whole in (*chain.from_iterable(self._spoiled[:places]), *map(bytes_of, self._scratch)):
                self._random.fill(whole)
            self._put_constants_back()

    @property
    def has_written_constants(self) -> bool:
        """Whether calls since `reserve` left something in constants, which a call after them may have found."""
        return any(not _same_bits(tensor, self._first[number]) for number, tensor in self.constants.items())

    def release(self) -> None:
        """Free the memory that is reserved."""
        self._reserved.clear()
        self._spoiled.clear()
        if self.packing is not None:
            self.packing.release()
        self._walled.clear()

    def _make_room(self, places: Sequence[int]) -> None:
        numbers = [*self._allocated] if places else []
        forms = [_form(self._allocated[number]) for number in numbers]
        names = [f"tensor {number} of call {place}" for place in places for number in numbers]
        walled, tensors = self._between_walls(forms * len(places), names)
        self._walled += [walled] if tensors else []
        made = iter(tensors)
        for _ in places:
            self._reserved.append({number: next(made) for number in numbers})
            self._spoiled.append([bytes_of(tensor) for tensor in self._reserved[-1].values()])

    def _between_walls(self, forms: Sequence[Form], names: Sequence[str]) -> tuple[Walled, list[Any]]:
        walled = self._walls.around([form.bytes for form in forms], names)
        return walled, walled.tensors(forms)

    def _put_constants_back(self) -> None:
        for number, tensor in self.constants.items():
            tensor.copy_(self._first[number])

    def require_fit(self, inputs: Sequence[Any], weights: Mapping[str, Any]) -> None:
        """Raise `UnplannableCallError` unless tensors and values are like those of the recording."""
        if len(inputs) != len(self.plan.inputs):
            raise UnplannableCallError(f"{len(inputs)} inputs, but {len(self.plan.inputs)} when it was recorded")
        for number, (given, value) in enumerate(zip(self.plan.inputs, inputs, strict=True)):
            if isinstance(given, int):
                if not _is_like(value, self.plan.layouts[given]):
                    raise UnplannableCallError(f"input {number} is not like the recorded {self.plan.layouts[given]}")
            elif argument(given["value"], self._device)({}) != value:
                raise UnplannableCallError(f"input {number} had another value when it was recorded")
        for name, number in self.plan.weights.items():
            if name not in weights or layout_of(weights[name]) != self.plan.layouts[number]:
                raise UnplannableCallError(f"the weight {name} is not like the recorded {self.plan.layouts[number]}")

    def _loaded(self, folder: Path) -> dict[tuple[str, Given | None], Launcher]:
        """Return what launches each code of the plan, C by what it is given."""
        known = generated_c(self.plan.codes) if self._device == "cpu" else self.plan.codes
        self._arguments = CArguments(self.plan, known)
        keys = [*self._arguments.functions(), *((digest, None) for digest, code in known.items() if code.kind != "c")]
        codes = [(known[digest], given) for digest, given in keys]
        return dict(zip(keys, load_together(codes, folder, self._device, self._scratch), strict=True))

    def _step(self, step: TorchStep | LaunchStep | ParallelStep) -> Callable[[dict[int, Any]], None]:
        if isinstance(step, TorchStep):
            return self._operator(step)
        if isinstance(step, LaunchStep):
            return self._launch(step)
        return self._parallel([self._launch(launch) for launch in step.launches])

    def _operator(self, step: TorchStep) -> Callable[[dict[int, Any]], None]:
        operator = allowed_operator(step.operator)
        args = [argument(form, self._device) for form in step.args]
        kwargs = {key: argument(form, self._device) for key, form in step.kwargs.items()}
        results, outs = step.results, [item.name for item in operator._schema.arguments if item.is_out]
        resizes = UnplannableCallError(f"the operator {step.operator}, which resizes what it writes to")
        first = returns_first(operator)

        def run(tensors: dict[int, Any]) -> None:
            if results[0] in tensors:  # reserved
                return
            named = {key: argument(tensors) for key, argument in kwargs.items()}
            before = [named[name].shape for name in outs]
            try:
                given = [item(tensors) for item in args]
                require_repeatable(operator, given, named)
                result = operator(*given, **named)
            except RuntimeError as error:
                if outs and _NOT_RESIZABLE in str(error):
                    raise resizes from None
                raise
            if outs and before != [named[name].shape for name in outs]:
                raise resizes
            if first:
                tensors[results[0]] = result[0]
            elif isinstance(result, tuple | list):
                tensors.update(zip(results, result, strict=True))
            else:
                tensors[results[0]] = result

        return run

    def _launch(self, step: LaunchStep) -> Callable[[dict[int, Any]], None]:
        given = self._arguments.of(step)
        launcher, grid = self._launchers[step.code, given], step.grid
        arguments = [argument(form, self._device) for form in step.arguments]
        return lambda tensors: launcher(grid, [item(tensors) for item in arguments])

    def _parallel(self, launches: Sequence[Callable[[dict[int, Any]], None]]) -> Callable[[dict[int, Any]], None]:
        def run(tensors: dict[int, Any]) -> None:
            self._threads.run([partial(launch, tensors) for launch in launches])

        return run


def _allocated(plan: LaunchPlan) -> dict[int, TensorLayout]:
    """Return the layouts of the tensors that a plan only allocates, by number; such a tensor is written to later."""
    return {
        step.results[0]: step.layouts[0]
        for step in plan.steps
        if isinstance(step, TorchStep) and step.operator in ALLOCATIONS and len(step.results) == len(step.layouts) == 1
    }


def _form(layout: TensorLayout) -> Form:
    return Form(layout.shape, layout.strides, dtype_of(layout))


def bytes_of(tensor: Any) -> Any:
    """Return all of a tensor's memory as one vector of bytes."""
    import torch

    return torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.untyped_storage())


def _same_bits(first: Any, second: Any) -> bool:
    import torch

    first, second = (tensor.contiguous().reshape(-1).view(torch.uint8) for tensor in (first, second))
    return bool(torch.equal(first, second))


def _is_like(value: Any, layout: TensorLayout) -> bool:
    """Return whether a value is a tensor whose layout differs at most in where it begins."""
    import torch

    return isinstance(value, torch.Tensor) and layout_of(value).model_copy(update={"offset": 0}) == layout.model_copy(
        update={"offset": 0}
    )


def loaded_plan(
    text: str, described: Sequence[Message], path: Path, folder: Path, device: str, walls: Walls | None = None
) -> PlanExecutor | str:
    """Check and compile a plan, with its constants from the file at `path`; return why it cannot be executed."""
    folder.mkdir(exist_ok=True)
    try:
        plan = LaunchPlan.model_validate_json(text)
        call, *packing = read_constants(plan, described, path, device)
        packs = PlanExecutor(plan.packing, packing[0], folder, device, walls=walls) if plan.packing else None
        return PlanExecutor(plan, call, folder, device, packs, walls)
    except UnplannableCallError as reason:
        return str(reason)
    except Exception as error:  # what another process wrote may be anything
        return not_a_plan(error)
