"""The worker that executes launch plans: it has neither the reference nor the problem, and its clock is not the one
that counts.

It is confined as a candidate is, and started afresh for each. Checks and timings are the same requests: `prepare` lays
out a batch of calls, each with its own inputs and memory; `go` makes them; `outputs` hands over results of those that
the evaluator then asks for.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from ..correctness.first_use import load_kernels
from ..guards.torch_share import operators_of
from ..languages.base import imported_supports
from ..reference.arithmetic import Arithmetic
from ..timing.clock import Clock
from ..workers import tensor_ipc
from ..workers.channel import Channel, Message
from ..workers.handover import plain_memory, taken
from ..workers.memory import LARGE, is_large, release_cache
from ..workers.modules import form_of, outputs_of
from ..workers.one_thread import OneThread
from ..workers.request_loop import GPU_FAULTS, Handler, describe, serve_requests
from .batch import CallBatch
from .executor import PlanExecutor, bytes_of, loaded_plan
from .faults import FaultAnswers
from .kept_weights import KeptWeights
from .operators import kind_and_family
from .random_bytes import RandomBytes
from .saved import not_a_plan
from .values import UnplannableCallError
from .walled_inputs import WalledHandovers, WalledInputs
from .walls import Walls

_REQUESTS = (
    "ready", "load_plan", "prepare", "prepare_packing", "go", "outputs", "repeat", "hold_steps", "count_steps",
    "time_steps", "release",
)  # fmt: skip


def serve(channel: Channel, options: Message) -> None:
    """Serve requests until the channel closes."""
    for name in options.get("languages", ()):
        with contextlib.suppress(Exception):  # where the server did not import it
            importlib.import_module(name)
    arithmetic = Arithmetic.of(options)
    worker = ReplayWorker(options["device"])
    arithmetic.main.set()  # torch's operators compute as the reference's do
    worker.warm_up()
    handlers: dict[str, Handler] = {name: getattr(worker, name) for name in _REQUESTS}
    faults = FaultAnswers(channel, worker.walls.touched, worker.folder)
    if options["device"] == "cpu":
        faults.install()
    serve_requests(channel, handlers, lambda error: {"error": describe(error)}, options["device"], faults.begun)


class ReplayWorker:
    """Plans by number, and the batch of calls that is prepared; each method serves the request of its name."""

    def __init__(self, device: str) -> None:
        self._device = device
        self.folder = Path.cwd() / "plans"
        self.walls = Walls(device)
        self._plans: dict[int, PlanExecutor] = {}
        self._weights: dict[str, Any] = {}
        self._packed: set[int] = set()  # plans that have packed these
        self._kept = KeptWeights()
        self._first: dict[str, Any] = {}
        self._inputs: list[list[Any]] = []
        self._factors: Any = None
        self._random = RandomBytes(device)
        self._places = WalledInputs(self.walls, self._random)
        self._handed = WalledHandovers(self.walls)
        self._writing = OneThread() if device == "cpu" else contextlib.nullcontext()
        self._batch = CallBatch()
        self._steps: list[tuple[str, Callable[[], None]]] = []  # torch's, of a call that was made
        self._ready = False
        self._opened = tensor_ipc.OpenMemory()
        self._published = tensor_ipc.OutputBuffer(device)

    def ready(self) -> Message:
        """Return whether the device could be opened: what CUDA refused once, for want of memory, stays refused."""
        return {"ready": self._ready}

    def warm_up(self) -> None:
        """Make what is loaded at its first use: CUDA loads each of torch's kernels then, and languages their driver.

        On a GPU this takes half a second, in which the candidate itself is still being checked. Others may have all of
        its memory: then a later request says so, if they still do.
        """
        with contextlib.suppress(Exception):
            self._open_device()
            self._ready = True

    def _open_device(self) -> None:
        if self._device == "cpu":
            return
        for support in imported_supports():
            with contextlib.suppress(Exception):
                support.build_helpers()
        load_kernels(self._device)
        kept = self.walls.around([64], ["none"])
        self._random.fill(kept.parts[0])
        self.walls.broken()
        self._clock.wait()

    @cached_property
    def _clock(self) -> Clock:
        return Clock(self._device)

    def load_plan(self, number: int, plan: str, constants: list[Message], path: str) -> Message:
        """Check and compile a plan from a file; `reason` says why it cannot be executed.

        Computes nothing on the device, where others may measure meanwhile.
        """
        found = loaded_plan(Path(plan).read_text(), constants, Path(path), self.folder, self._device, self.walls)
        if isinstance(found, str):
            return {"reason": found}
        self._plans[number] = found
        return {"reason": None}

    def prepare(
        self,
        number: int,
        calls: list[list[int | None]],
        weights: Message | None,
        inputs: list[Message] | None,
        factors: Message | None,
        restored: list[str],
        graph: bool,
        watch: bool,
        settle: bool = False,
    ) -> Message:
        """Lay out a batch of calls of a plan; `reason` says why it does not fit them.

        Each call has the number of its inputs among those that were handed over, and where its factors begin among
        the `factors`, or none. Weights, inputs and factors stay until others are handed over; weights that are
        `restored` get their first values again. `watch` looks for side effects of the first call. `settle` makes the
        GPU ready for calls whose time counts. `remembers` in the response says whether the batch before left something
        in the plan's constants.
        """
        before = self._batch.executor
        remembers = before is not None and before.has_written_constants
        self._batch, self._steps = CallBatch(), []
        try:
            self._take(weights, inputs, factors)
        except tensor_ipc.UnreadableTensorError:
            return {"reason": None, "read": False}
        executor = self._plans[number]
        try:
            executor.require_fit(self._inputs[calls[0][0] or 0], self._weights)
            self._pack(number, executor)
        except UnplannableCallError as reason:
            return {"reason": str(reason)}
        except Exception as error:  # what another process wrote may be anything
            return {"reason": not_a_plan(error)}
        with self._writing:  # of a check's call all side effects are looked for
            kept = {name: item for name, item in self._weights.items() if settle and name not in restored}
            self._kept.watch(kept, number, executor.packed if settle else {})
        self._clock.graph = graph and self._device != "cpu"
        batch = CallBatch(number, executor, self._laid_out(executor, calls, restored))
        captured = [self._captured(batch, place) for place in range(len(calls))]
        if any(captured):  # which made the calls
            batch = CallBatch(number, executor, self._laid_out(executor, calls, restored))
        if watch:
            batch.watch(self._weights)
        self._batch = batch
        if settle:  # else the first call would, on the clock of the evaluator
            self._clock.settle()
        return {"reason": None, "remembers": remembers}

    def prepare_packing(self, number: int, calls: int) -> Message:
        """Lay out a batch that packs the weights again; `reason` says why there is none. They are packed already."""
        packing = self._plans[number].packing
        if packing is None:
            return {"reason": "its plan packs no weights"}
        packing.reserve(calls)
        self._batch = CallBatch(number, packing, [()] * calls)
        self._clock.graph = False
        self._clock.settle()
        return {"reason": None}

    def _pack(self, number: int, executor: PlanExecutor) -> None:
        """Let a plan pack the weights, if they are new to it."""
        if number not in self._packed:
            executor.pack(self._weights)
            self._packed.add(number)

    def _laid_out(
        self, executor: PlanExecutor, calls: Sequence[Sequence[int | None]], restored: Sequence[str]
    ) -> list[Sequence[Any]]:
        """Return each call's inputs; also give weights their first values, and lay out the memory of the calls."""
        with self._writing:
            own = {place: self._inputs[call[0] or 0] for place, call in enumerate(calls) if self._copies(*call)}
            self._places.make(own)
            given = [self._filled(place, *call) for place, call in enumerate(calls)]
            for name in restored:
                self._weights[name].copy_(self._first.setdefault(name, self._weights[name].clone()))
            self._spoil(given[0])
        executor.reserve(len(calls))
        return given

    def _spoil(self, like: Sequence[Any]) -> None:
        """Leave random bytes in the memory that operators allocate next for tensors like these, unless it is large."""
        import torch

        tensors = [value for value in like if type(value) is torch.Tensor and value.layout == torch.strided]
        if not is_large(tensors):
            for memory in [bytes_of(torch.empty_like(value)) for value in tensors]:
                self._random.fill(memory)

    def _captured(self, batch: CallBatch, place: int) -> bool:
        """Capture a call as a graph, where that is requested and was not done; return whether it was done now."""
        if self._clock.is_captured((batch.number, place)):
            return False
        self._clock.prepared((batch.number, place), batch.call(place, self._weights))
        return True

    def go(self, empty: bool = False) -> Message:
        """Make the calls of the batch, or none; `reason` says why they fail, unless that ends the process."""
        batch = self._batch
        count = 0 if empty else len(batch.inputs)
        # Made before the first one: on the clock of the evaluator all that is between them is theirs.
        calls = iter([((batch.number, place), batch.call(place, self._weights)) for place in range(count)])
        gc.disable()  # a collection takes longer than many a kernel
        try:
            # The process of the reference warms the GPU up: here that would be on the clock of the evaluator.
            made = self._clock.sample(calls.__next__, count, keep=True, warm=False)
        except Exception as error:
            if any(fault in str(error) for fault in GPU_FAULTS):
                raise
            return {"reason": describe(error)}
        finally:
            gc.enable()
        if not empty:
            batch.results = made.results
        return made.message(self._clock.method)

    def outputs(self, calls: list[int], path: str, share: bool, written: list[int]) -> Message:
        """Hand over what calls of the batch returned, each with the inputs whose numbers are in `written`.

        `form` says whether results are one tensor, a tuple or a list; the rest of the response is what the first call
        did beside returning them, where it is watched. Where calls changed memory outside of their tensors, it is that.
        """
        batch = self._batch
        with self._writing:
            broken = self.walls.broken() or self._kept.written()
        if broken is not None:
            return {"violations": [broken.model_dump()]}
        found = {"form": form_of(batch.results[0]), **batch.seen()}
        tensors, sizes = [], []
        for call in calls:
            own = [*outputs_of(batch.results[call]), *(batch.inputs[call][number] for number in written)]
            tensors += own
            sizes.append(len(own))
        described = self._published.publish(tensors, Path(path), share)
        each = iter(described)
        return found | {"outputs": [[next(each) for _ in range(size)] for size in sizes]}

    def repeat(self, calls: int) -> Message:
        """Make the first call of the batch `calls` times; the evaluator measures the time."""
        call = self._batch.call(0, self._weights)
        for _ in range(calls):
            call()
        self._clock.wait()
        return {}

    def hold_steps(self) -> Message:
        """Make the first call of the batch, and keep its torch operators for `time_steps`.

        `steps` names those that are more than allocations and views, as `guards.measured_share.TorchOperator`.
        """
        batch = self._batch
        self._steps = batch.executor.torch_steps(batch.inputs[0], self._weights)
        self._clock.wait()
        steps = []
        for name, _ in self._steps:
            kind, family = kind_and_family(name)
            steps.append({"name": name, "kind": kind, "family": family})
        return {"steps": steps}

    def count_steps(self) -> Message:
        """Hold the operators, repeat each once, and return what they do as `guards.torch_share.Operator`."""
        self.hold_steps()
        return {"operators": operators_of(lambda: [call() for _, call in self._steps])}

    def time_steps(self) -> Message:
        """Repeat each of the held operators once; the first time is that of an operator on a single element."""
        import torch

        least = torch.zeros(1, device=self._device)
        calls = [lambda: torch.relu(least), *(call for _, call in self._steps)]
        made = self._clock.sample(iter(enumerate(calls)).__next__, len(calls), warm=False)
        return made.message(self._clock.method)

    def release(self) -> Message:
        """Free what can be handed over again, where it is large: the reference may need the memory next."""
        self._batch, self._steps = CallBatch(), []
        if is_large([value for values in self._inputs for value in values]):
            self._inputs = []
            self._handed.forget("inputs")
            self._opened.close()
            self._places.clear()
            self._clock.forget()
            for executor in self._plans.values():
                executor.release()
        release_cache(self._device)
        return {}

    def _take(self, weights: Message | None, inputs: list[Message] | None, factors: Message | None) -> None:
        if weights is not None:
            self._weights, self._first = {}, {}
            self._packed.clear()
            self._kept.forget()
            self._handed.forget("weights")
            self._clock.forget()  # graphs contain their addresses
            memory = self._handed.memory("weights", weights["given"], weights["names"])
            values = taken(weights["given"], self._device, self._opened, memory)
            self._weights = dict(zip(weights["names"], values, strict=True))
        if inputs is not None:
            self._inputs = []  # freed before the next
            self._handed.forget("inputs")
            self._inputs = [self._taken(value) for value in inputs]
        if factors is not None:
            (self._factors,) = taken(factors, self._device, self._opened, plain_memory(self._device))

    def _taken(self, described: Message) -> list[Any]:
        """Return inputs: copies, or where these are large on a GPU what was handed over itself."""
        if self._device == "cpu" and sum(described["sizes"]) > LARGE:  # launches see these without another copy
            names = [f"input {number}" for number in range(len(described["values"]))]
            return taken(described, self._device, self._opened, self._handed.memory("inputs", described, names))
        values = taken(described, self._device, self._opened)
        if "handle" not in described or is_large(values):
            return values
        return taken(described, self._device, self._opened, plain_memory(self._device))

    def _copies(self, number: int | None, start: int | None) -> bool:
        """Return whether a call has inputs of its own; a copy of large ones would need as much memory again."""
        return start is not None or self._clock.graph or not is_large(self._inputs[number or 0])

    def _filled(self, place: int, number: int | None, start: int | None) -> Sequence[Any]:
        """Return a call's inputs, in buffers that keep their address from batch to batch."""
        values = self._inputs[number or 0]
        if not self._copies(number, start):
            return values
        buffers = self._places.at(place)
        return buffers.fill(values) if start is None else buffers.scaled(values, self._factors[start:])
