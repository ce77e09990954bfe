"""The worker that runs a candidate. It never sees the reference's outputs.

Each loaded config has a serial number; several stay loaded for interleaved timing. A response is {"ok": true, ...} or
{"ok": false, "stage": "compile" | "run", "error": ...}, and includes the rules that were broken.
"""

from __future__ import annotations

import contextlib
import importlib
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..correctness.distributions import draw
from ..correctness.first_use import load_kernels
from ..correctness.inputs import Buffers
from ..correctness.side_effects import SideEffects, WrittenWeights, poison
from ..guards.own_kernels import LaunchCounter, is_own
from ..guards.torch_share import operators_of
from ..guards.watch import Watch
from ..languages.base import imported_supports, supports
from ..languages.described_gpu import USUAL, describe_gpu
from ..profiling.torch_profiler import profile_call
from ..reference.arithmetic import Arithmetic
from ..timing.timed_calls import TimedCalls
from ..workers import tensor_ipc
from ..workers.channel import Channel, Message
from ..workers.memory import keep_freed_memory, release_cache
from ..workers.modules import ProblemModule, construct, load_weights, outputs_of, weights_of
from ..workers.request_loop import GPU_FAULTS, Handler, describe, serve_requests, text_of
from ..workers.user_call import count_written, result_parts
from ..workers.user_modules import CandidateModules
from .launch_times import LaunchTimes
from .recording import record_plan

_REQUESTS = (
    "load", "weights", "run", "again", "time", "timed_outputs", "launches", "operators", "profile", "record",
    "draw_host", "repeat", "host", "resize", "release",
)  # fmt: skip

_WATCHED = {
    "load": "loading", "again": "a call", "time": "timing", "timed_outputs": "timing", "launches": "timing",
    "operators": "a call", "profile": "profiling", "record": "recording",
}  # fmt: skip
"""Requests after which broken rules are looked for, which takes milliseconds: compared outputs prove themselves."""
COUNTED = 3
"""Calls whose launches are counted."""
CALLS_UNHEEDED = 2
"""Calls before those whose work on the host is measured."""


def serve(channel: Channel, options: Message) -> None:
    """Serve requests until the channel closes."""
    for name in options.get("languages", ()):
        # Before anything is watched, also where the server that this is forked from has just replaced another.
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    if options["device"].startswith("cuda"):  # now, while the kernel is still being compiled: it takes half a second
        load_kernels(options["device"])
    arithmetic = Arithmetic.of(options)
    candidate = CandidateWorker(options)
    arithmetic.main.set()  # its torch operators compute as the reference's do
    handlers: dict[str, Handler] = {name: candidate.handler(name) for name in _REQUESTS}
    serve_requests(channel, handlers, candidate.failed, options["device"])


class CandidateWorker:
    """The state of one worker: the loaded models, by serial number."""

    def __init__(self, options: Message) -> None:
        self.options = options
        self.device: str = options["device"]
        describe_gpu(options.get("described_gpu", USUAL))
        self._languages = imported_supports()
        for support in self._languages:
            support.prepare(self.device)  # what a package asks a language when it is imported, it keeps
        self._modules = CandidateModules(options.get("package"))
        self.problem = self._problem(options["sizes"])
        self.models: dict[int, Any] = {}
        self.timed = TimedCalls(self.device, self.problem)
        self.inputs = Buffers()
        self._held: list[Any] = []
        self._last: dict[int, list[Any]] = {}
        self._shared: list[Any] = []
        self._launches = LaunchCounter(self.device)
        self._launch_times = LaunchTimes(self.device, self.timed.clock, self._languages)
        self._hosted: list[Callable[[], object]] = []  # the call that `host` repeats
        self._host_call: tuple[int, int, int | None] = (0, 0, None)
        """Serial, seed, and the seed of the integers that are held."""
        for support in set(imported_supports()) - set(self._languages):
            support.prepare(self.device)
        self._languages = imported_supports()
        # Created last: from here on nothing that measuring depends on may change.
        self._watch = Watch(self.device, [self, self.timed, self.timed.clock, self.inputs])
        self._watch.follow(self.problem.module)
        self.timed.call_returned = self._watch.call_returned

    def handler(self, name: str) -> Handler:
        """Return the handler of this name, with the broken rules added to its response."""
        handler: Handler = getattr(self, name)

        def answer(**request: Any) -> Message:
            found = handler(**request)
            violations = self._watch.violations(_WATCHED[name]) if name in _WATCHED else []
            return {**found, "violations": violations}

        return answer

    def failed(self, error: BaseException) -> Message:
        """Return the response to a request that ended with this error."""
        return {"stage": stage_of(error), "error": describe(error)}

    def load(self, source: str, serial: int, keep: bool) -> Message:
        """Execute the kernel's source and construct ModelNew; earlier models are unloaded unless `keep` is set."""
        import torch

        self._shared.clear()
        self._held.clear()
        if not keep:
            self.models.clear()
            self._last.clear()
            self.timed.forget(self.problem)
        torch.manual_seed(0)  # the file itself may draw
        module = self._modules.load(f"kernelwright_candidate_{serial}", Path(source), self._watch.of_own_file)
        model = construct(lambda: module.ModelNew(*self.problem.init_inputs()), self.device, seed=0)
        if not isinstance(model, torch.nn.Module):
            bases = ", ".join(base.__name__ for base in type(model).__bases__)
            raise TypeError(
                f"ModelNew makes an object of the class {type(model).__name__}({bases}), which is not a "
                "torch.nn.Module; derive ModelNew from torch.nn.Module"
            )
        self.models[serial] = model.to(self.device)
        return {}

    def resize(self, sizes: Message) -> Message:
        """Set other sizes of the problem; models of the old sizes are unloaded."""
        self._hosted.clear()
        self.models.clear()
        self.release()
        self.problem = self._problem(sizes)
        self._watch.follow(self.problem.module)
        self.timed.forget(self.problem)
        return {}

    def weights(self, serial: int, path: str, shared: Message | None, written: list[int]) -> Message:
        """Load the reference's weights from shared memory, or from a file that exists if there are any.

        The reference writes to the inputs with the numbers in `written`. `read` in the response is False where the
        memory cannot be opened.
        """
        import torch

        count_written(written)
        state = None
        if shared is not None:
            try:
                state = tensor_ipc.open_state(shared, self.device)
            except tensor_ipc.UnreadableTensorError:
                return {"read": False}
        elif Path(path).exists():
            state = torch.load(path, map_location=self.device)
        load_weights(self.models[serial], state)
        self._synchronize()  # the memory is written again for the next weights
        return {"read": True}

    def run(
        self,
        serial: int,
        seed: int,
        outputs: str,
        share: bool,
        written: list[int],
        distribution: str | None = None,
        hold: bool = False,
    ) -> Message:
        """Run one call on fresh inputs; pass its outputs in a file or as shared memory, and keep them for `again`.

        Behind the outputs come the inputs with the numbers in `written`, which the reference writes to.
        """
        model = self.models[serial]
        self._shared.clear()
        inputs = self.inputs.fill(draw(self.problem, seed, distribution))
        effects, on_weights = SideEffects(inputs), WrittenWeights(weights_of(model))
        poison(self._held or inputs)
        start = time.perf_counter()
        result = model(*inputs)
        self._synchronize()
        seconds, parts = time.perf_counter() - start, result_parts()
        returned = outputs_of(result)
        results = [*returned, *(inputs[number] for number in written)]
        described, self._shared = tensor_ipc.publish_outputs(results, Path(outputs), share)
        if hold:
            self._held = returned
        found = {**effects.of(returned), "weights": on_weights.names()}
        if self.inputs.are_large:  # the reference needs the memory now
            self.inputs.clear()
        del inputs, effects
        release_cache(self.device)
        return {"seconds": seconds, "outputs": described, "parts": parts, **found}

    def again(self, outputs: str, share: bool) -> Message:
        """Pass the held call's outputs once more."""
        described, self._shared = tensor_ipc.publish_outputs(self._held, Path(outputs), share)
        return {"outputs": described}

    def time(self, serial: int, samples: int, seed: int, graph: bool) -> Message:
        """Time calls on inputs drawn from the seed, and keep the last one's outputs.

        Each of several interleaved kernels keeps its own.
        """
        self._clear()
        self._last.pop(serial, None)  # freed before the next
        answer = self.timed.time(serial, self.models[serial], seed, samples, graph)
        self._last[serial] = outputs_of(self.timed.last)
        return answer

    def timed_outputs(self, serial: int, outputs: str, share: bool) -> Message:
        """Pass the last timed call's outputs."""
        described, self._shared = tensor_ipc.publish_outputs(self._last[serial], Path(outputs), share)
        return {"outputs": described}

    def launches(self, serial: int, seed: int) -> Message:
        """Time each kernel's launches in some calls."""
        return {"samples_ms": self._launch_times.of(self._call(serial, seed))}

    def operators(self, serial: int, seed: int, integers: int | None = None) -> Message:
        """Return one call's torch operators, and its own kernels' launches; perhaps with integers of another seed."""
        with self.problem.holding(integers):
            call = self._call(serial, seed)
        # The best of several: on a busy machine any call may wait for the processor.
        counted = min(
            (self._counted(call, self._launches) for _ in range(COUNTED)), key=lambda counts: counts["call_ms"]
        )
        return {"operators": operators_of(call), **counted}

    def record(self, serial: int, seed: int, plan: str, constants: str, integers: int | None = None) -> Message:
        """Record a call of a new model with the current weights as a launch plan; from now on it is the model.

        `integers` is the seed of those that are held (`ProblemModule.hold_integers`), if any; a user's function may
        read integers. The response is that of `record_plan`.
        """
        current = self.models[serial]
        model = construct(lambda: type(current)(*self.problem.init_inputs()), self.device, seed=0).to(self.device)
        self.models[serial] = model  # what is watched, profiled and timed is what was recorded
        with self.problem.holding(integers):
            inputs = self.inputs.fill(draw(self.problem, seed))  # as timed calls have them
        reads_integers = self.options.get("package") is not None
        return record_plan(current, model, inputs, reads_integers, self._synchronize, Path(plan), Path(constants))

    def draw_host(self, serial: int, seed: int, integers: int | None = None) -> Message:
        """Draw the inputs of the calls that `host` and `repeat` make, perhaps with the integers of another seed."""
        keep_freed_memory()
        self._host_call = serial, seed, integers
        self._draw_hosted(integers)
        return self.repeat(CALLS_UNHEEDED)

    def _draw_hosted(self, integers: int | None) -> None:
        serial, seed, _ = self._host_call
        self._hosted = []  # freed before others are drawn
        with self.problem.holding(integers):
            self._hosted = [self._call(serial, seed)]

    def repeat(self, calls: int) -> Message:
        """Make this many calls, or none; the evaluator measures the time."""
        for _ in range(calls):
            self._hosted[0]()
        self._synchronize()
        return {}

    def host(self, integers: int | None = None) -> Message:
        """Return the time until a call returns, in ms; on a CPU without its launches and torch's operators.

        On request the call has the integers of another seed, so results that were kept of earlier calls do not help.
        """
        if integers is not None:
            self._draw_hosted(integers)
        counts = self._counted(self._hosted[0], LaunchCounter(self.device, torch=self.device == "cpu"))
        if integers is not None:
            self._draw_hosted(self._host_call[2])
        return {"host_ms": max(0.0, counts["call_ms"] - (counts["own_ms"] or 0.0))}

    def _counted(self, call: Callable[[], object], counter: LaunchCounter) -> Message:
        with counter as launches:
            call()
        self._synchronize()
        return {"launches": dict(launches.counts), "own_ms": launches.own_ms, "call_ms": launches.call_ms}

    def profile(self, serial: int, seed: int, own: list[str], code: bool) -> Message:
        """Return what runs on the device in one call, with facts of the machine code if asked."""
        names = set(own)

        def ours(name: str) -> bool:
            return is_own(name, names, self._languages)

        flush = self.timed.clock.flush
        return {"profile": profile_call(self._call(serial, seed), self.device, ours, flush, code)}

    def _problem(self, sizes: Message) -> ProblemModule:
        problem = ProblemModule(Path(self.options["problem"]), sizes, self.device)
        # Only the inputs and the constructor's arguments are needed; the reference stays out of reach.
        del problem.module.Model
        return problem

    def release(self) -> Message:
        """Free what can be drawn again, where it is large: the reference may need the memory next."""
        self._hosted.clear()
        if self.inputs.are_large or self.timed.is_large:
            self._last.clear()
            self._clear()
            self.timed.release()
        release_cache(self.device)
        return {}

    def _clear(self) -> None:
        """Free the memory of checking, so that a large kernel has as much when it is timed as when it is used."""
        self._shared = []
        if self._held or self.inputs.are_large:
            self._held = []
            self.inputs.clear()  # not replaced: the watch refers to this object
            release_cache(self.device)

    def _call(self, serial: int, seed: int) -> Callable[[], object]:
        inputs = self.inputs.fill(draw(self.problem, seed))
        model = self.models[serial]
        return lambda: model(*inputs)

    def _synchronize(self) -> None:
        if self.device.startswith("cuda"):
            import torch

            torch.cuda.synchronize()


def stage_of(error: BaseException) -> str:
    """Return 'compile' when a compiler or Python's own parser refused the source, else 'run'."""
    if isinstance(error, SyntaxError):
        return "compile"
    text = text_of(error)
    if any(fault in text for fault in GPU_FAULTS):
        return "run"
    compilers = [part for support in supports() for part in support.compiler_paths]
    frames = traceback.extract_tb(error.__traceback__)
    return "compile" if any(part in frame.filename for frame in frames for part in compilers) else "run"
