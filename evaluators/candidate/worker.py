"""The worker that runs a candidate. It never sees what the reference returns.

What is loaded has a serial number; several stay loaded when they are to be timed in turn. Each request is answered
by {"ok": true, ...} or {"ok": false, "stage": "compile" | "run", "error": ...}, and each answer says which rules
were broken on the way.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..correctness.inputs import Buffers, draw
from ..correctness.side_effects import SideEffects
from ..guards.own_kernels import LaunchCounter, is_own
from ..guards.torch_share import operators_of
from ..guards.watch import Watch
from ..profiling.torch_profiler import profile_call
from ..timing.timed_calls import TimedCalls
from ..workers import tensor_ipc
from ..workers.channel import Channel, Message
from ..workers.modules import ProblemModule, load, outputs_of
from ..workers.request_loop import Handler, describe, serve_requests

# An exception whose traceback passes here was raised by a compiler.
_COMPILERS = (
    "/tilelang/engine/", "/tilelang/jit/kernel.py", "/tilelang/jit/adapter/libgen.py", "/tilelang/jit/__init__.py",
    "/tilelang/language/", "/tilelang/cache/", "/tilelang/utils/language.py", "/tvm/", "/triton/compiler/",
    "/triton/backends/",
)  # fmt: skip
# Of an earlier kernel: a compiler that loads the next one is merely the first to hear of it.
_FAULTS = ("device-side assert", "illegal memory access", "misaligned address", "unspecified launch failure")
_REQUESTS = ("warm", "load", "run", "again", "time", "timed_outputs", "operators", "profile", "resize")

_AFTER = {"load": "loading", "run": "a call", "again": "a call", "time": "timing", "timed_outputs": "timing"}
COUNTED = 3
"""Calls whose launches are counted."""


def serve(channel: Channel, options: Message) -> None:
    """Answer requests until the channel closes."""
    if options["device"].startswith("cuda"):
        open_gpu(options["device"])
    candidate = CandidateWorker(options)
    handlers: dict[str, Handler] = {name: candidate.watched(name) for name in _REQUESTS}
    serve_requests(channel, handlers, lambda error: {"stage": stage_of(error), "error": describe(error)})


def open_gpu(device: str) -> None:
    """Make the CUDA context now: it takes a second, in which the first kernel is still being compiled."""
    import torch

    torch.empty(1, device=device)


class CandidateWorker:
    """The state of one worker: the models that are loaded, by serial number."""

    def __init__(self, options: Message) -> None:
        self.options = options
        self.device: str = options["device"]
        self.problem = self._problem(options["sizes"])
        self.models: dict[int, Any] = {}
        self.timed = TimedCalls(self.device, self.problem)
        self.inputs = Buffers()
        self._held: list[Any] = []
        self._last: dict[int, list[Any]] = {}
        self._shared: list[Any] = []
        self._launches = LaunchCounter(self.device)
        # Made last: from here on nothing that measuring rests on may change.
        self._watch = Watch(self.device, [self, self.timed, self.timed.clock, self.inputs])
        self._watch.follow(self.problem.module)
        self.timed.call_returned = self._watch.call_returned

    def watched(self, name: str) -> Handler:
        """The handler of this name, whose answer says which rules were broken."""
        handler: Handler = getattr(self, name)

        def answer(**request: Any) -> Message:
            return {**handler(**request), "violations": self._watch.violations(_AFTER.get(name, name))}

        return answer

    def warm(self) -> Message:
        """Do now what the first measurement would have to wait for."""
        profile_call(lambda: None, self.device, lambda name: False)
        return {}

    def load(self, source: str, serial: int, keep: bool) -> Message:
        """Execute the kernel's source and construct ModelNew; what was loaded before goes, unless told to keep it."""
        import torch

        self._shared.clear()
        self._held.clear()
        if not keep:
            self.models.clear()
            self._last.clear()
            self.timed.forget(self.problem)
        torch.manual_seed(0)
        module = load(f"kernelwright_candidate_{serial}", Path(source))
        self.models[serial] = module.ModelNew(*self.problem.init_inputs()).to(self.device)
        return {}

    def resize(self, sizes: Message) -> Message:
        """From now on the problem has other sizes; what was loaded for the old ones goes."""
        self.models.clear()
        self.problem = self._problem(sizes)
        self._watch.follow(self.problem.module)
        self.timed.forget(self.problem)
        return {}

    def run(
        self,
        serial: int,
        seed: int,
        state: str,
        outputs: str,
        share: bool,
        distribution: str | None = None,
        hold: bool = False,
    ) -> Message:
        """One call on fresh inputs, its outputs handed over in a file or as shared memory, and kept for `again`."""
        import torch

        model = self.models[serial]
        if Path(state).exists():
            model.load_state_dict(torch.load(state, map_location=self.device))
        self._shared.clear()
        inputs = self.inputs.fill(draw(self.problem, seed, distribution))
        _poison(self._held or inputs)
        effects, weights = SideEffects(inputs), SideEffects([one.data for one in model.parameters()])
        start = time.perf_counter()
        result = model(*inputs)
        self._synchronize()
        seconds = time.perf_counter() - start
        returned = outputs_of(result)
        described, self._shared = tensor_ipc.publish_outputs(returned, Path(outputs), share)
        if hold:
            self._held = returned
        return {"seconds": seconds, "outputs": described, **effects.of(returned), "weights": weights.of([])["changed"]}

    def again(self, outputs: str, share: bool) -> Message:
        """Hand over once more what the call that was held returned."""
        described, self._shared = tensor_ipc.publish_outputs(self._held, Path(outputs), share)
        return {"outputs": described}

    def time(self, serial: int, samples: int, seed: int, graph: bool) -> Message:
        """Time calls on inputs drawn from the seed, and keep what the last one returned.

        Several kernels that are timed in turn each keep theirs.
        """
        self._clear()
        answer = self.timed.time(serial, self.models[serial], seed, samples, graph)
        self._last[serial] = outputs_of(self.timed.last)
        return answer

    def timed_outputs(self, serial: int, outputs: str, share: bool) -> Message:
        """Hand over what the last timed call returned."""
        described, self._shared = tensor_ipc.publish_outputs(self._last[serial], Path(outputs), share)
        return {"outputs": described}

    def operators(self, serial: int, seed: int) -> Message:
        """What one call asks of torch, and the kernels of its own that it launches."""
        call = self._call(serial, seed)
        # The best of some: on a busy machine any call may wait for the processor.
        counted = min((self._counted(call) for _ in range(COUNTED)), key=lambda one: one["call_ms"])
        return {"operators": operators_of(call), **counted}

    def _counted(self, call: Callable[[], object]) -> Message:
        with self._launches as launches:
            call()
        self._synchronize()
        return {"launches": dict(launches.counts), "own_ms": launches.own_ms, "call_ms": launches.call_ms}

    def profile(self, serial: int, seed: int, own: list[str]) -> Message:
        """What runs on the device in one call."""
        names = set(own)
        flush = self.timed.clock.flush
        return {"profile": profile_call(self._call(serial, seed), self.device, lambda name: is_own(name, names), flush)}

    def _problem(self, sizes: Message) -> ProblemModule:
        problem = ProblemModule(Path(self.options["problem"]), sizes, self.device)
        # Inputs and constructor's arguments are all that is needed here; the reference stays out of reach.
        del problem.module.Model
        return problem

    def _clear(self) -> None:
        """Give back the memory of checking, so that a large kernel has as much when it is timed as when it is used."""
        if self._held or self._shared:
            self._held, self._shared, self.inputs = [], [], Buffers()
            if self.device.startswith("cuda"):
                import torch

                torch.cuda.empty_cache()

    def _call(self, serial: int, seed: int) -> Callable[[], object]:
        inputs = self.inputs.fill(draw(self.problem, seed))
        model = self.models[serial]
        return lambda: model(*inputs)

    def _synchronize(self) -> None:
        if self.device.startswith("cuda"):
            import torch

            torch.cuda.synchronize()


def _poison(like: list[Any]) -> None:
    """Leave NaN in the memory that the next allocations of such sizes will get: an output that is not written shows."""
    import torch

    spoiled = [
        torch.full_like(value, float("nan"))
        for value in like
        if type(value) is torch.Tensor and value.is_floating_point() and value.layout == torch.strided
    ]
    del spoiled


def stage_of(error: BaseException) -> str:
    """'compile' when a compiler or Python's own parser refused the source, else 'run'."""
    if isinstance(error, SyntaxError):
        return "compile"
    if any(fault in str(error) for fault in _FAULTS):
        return "run"
    frames = traceback.extract_tb(error.__traceback__)
    return "compile" if any(part in frame.filename for frame in frames for part in _COMPILERS) else "run"
