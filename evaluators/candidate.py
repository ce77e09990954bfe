"""The worker that runs a candidate. It never sees what the reference returns.

Requests: load (source file), run (weights, seed, where to put the outputs), time (samples). What is loaded has a
serial number; several stay loaded when they are to be timed in turn. Each is answered by {"ok": true, ...} or
{"ok": false, "stage": "compile" | "run", "error": ...}.
"""

from __future__ import annotations

import time
import traceback
from pathlib import Path
from typing import Any

from . import handoff
from .channel import Channel, Message
from .clock import Clock, bind_call
from .modules import ProblemModule, load, outputs_of
from .serving import Handler, describe, serve_requests

# An exception whose traceback passes here was raised by a compiler.
_COMPILERS = (
    "/tilelang/engine/", "/tilelang/jit/kernel.py", "/tilelang/jit/adapter/libgen.py", "/tilelang/jit/__init__.py",
    "/tilelang/language/", "/tilelang/cache/", "/tilelang/utils/language.py", "/tvm/", "/triton/compiler/",
    "/triton/backends/",
)  # fmt: skip


def serve(channel: Channel, options: Message) -> None:
    """Answer requests until the channel closes."""
    if options["device"].startswith("cuda"):
        open_gpu(options["device"])
    problem = ProblemModule(Path(options["problem"]), options["sizes"], options["device"])
    candidate = Candidate(problem, options["device"])
    handlers: dict[str, Handler] = {"load": candidate.load, "run": candidate.run, "time": candidate.time}
    serve_requests(channel, handlers, lambda error: {"stage": stage_of(error), "error": describe(error)})


def open_gpu(device: str) -> None:
    """Make the CUDA context now: it takes a second, in which the first kernel is still being compiled."""
    import torch

    torch.empty(1, device=device)


class Candidate:
    """The state of one worker: the models that are loaded, by serial number."""

    def __init__(self, problem: ProblemModule, device: str) -> None:
        self.problem = problem
        self.device = device
        self.clock = Clock(device)
        self.models: dict[int, Any] = {}
        self.inputs: dict[int, list[Any]] = {}
        self._shared: list[Any] = []

    def load(self, source: str, serial: int, keep: bool) -> Message:
        """Execute the kernel's source and construct ModelNew; what was loaded before goes, unless told to keep it."""
        import torch

        self._shared.clear()
        if not keep:
            self.models.clear()
            self.inputs.clear()
        torch.manual_seed(0)
        module = load(f"kernelwright_candidate_{serial}", Path(source))
        self.models[serial] = module.ModelNew(*self.problem.init_inputs()).to(self.device)
        return {}

    def run(self, serial: int, seed: int, state: str, outputs: str, share: bool) -> Message:
        """One call on fresh inputs, its outputs handed over in a file or as shared memory."""
        import torch

        model = self.models[serial]
        if Path(state).exists():
            model.load_state_dict(torch.load(state, map_location=self.device))
        self._shared.clear()
        inputs = self.inputs[serial] = self.problem.inputs(seed)
        clones = [value.clone() if isinstance(value, torch.Tensor) else value for value in inputs]
        start = time.perf_counter()
        result = model(*clones)
        if self.device.startswith("cuda"):
            torch.cuda.synchronize()
        seconds = time.perf_counter() - start
        described, self._shared = handoff.hand_over(outputs_of(result), Path(outputs), share)
        return {"seconds": seconds, "outputs": described}

    def time(self, serial: int, samples: int) -> Message:
        """Time calls on the inputs of the last run."""
        times, busy = self.clock.sample(bind_call(self.models[serial], self.inputs[serial]), samples)
        return {"samples_ms": times, "cores": busy, "method": self.clock.method}


def stage_of(error: BaseException) -> str:
    """'compile' when a compiler or Python's own parser refused the source, else 'run'."""
    if isinstance(error, SyntaxError):
        return "compile"
    frames = traceback.extract_tb(error.__traceback__)
    return "compile" if any(part in frame.filename for frame in frames for part in _COMPILERS) else "run"
