"""The worker that runs a candidate. It never sees what the reference returns.

Requests: load (source file), run (weights, seed, where to put the outputs), time (samples).
Each is answered by {"ok": true, ...} or {"ok": false, "stage": "compile" | "run", "error": ...}.
"""

from __future__ import annotations

import time
import traceback
from pathlib import Path
from typing import Any

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
    problem = ProblemModule(Path(options["problem"]), options["sizes"], options["device"])
    candidate = Candidate(problem, options["device"])
    handlers: dict[str, Handler] = {"load": candidate.load, "run": candidate.run, "time": candidate.time}
    serve_requests(channel, handlers, lambda error: {"stage": stage_of(error), "error": describe(error)})


class Candidate:
    """The state of one worker: the model of the config that was loaded last."""

    def __init__(self, problem: ProblemModule, device: str) -> None:
        self.problem = problem
        self.device = device
        self.clock = Clock(device)
        self.model: Any = None
        self.inputs: list[Any] = []

    def load(self, source: str, serial: int) -> Message:
        """Execute the kernel's source and construct ModelNew."""
        import torch

        self.model = None
        torch.manual_seed(0)
        module = load(f"kernelwright_candidate_{serial}", Path(source))
        self.model = module.ModelNew(*self.problem.init_inputs()).to(self.device)
        return {}

    def run(self, seed: int, state: str, outputs: str) -> Message:
        """One call on fresh inputs, its outputs written to a file."""
        import torch

        if Path(state).exists():
            self.model.load_state_dict(torch.load(state, map_location=self.device))
        self.inputs = self.problem.inputs(seed)
        clones = [value.clone() if isinstance(value, torch.Tensor) else value for value in self.inputs]
        start = time.perf_counter()
        result = self.model(*clones)
        if self.device.startswith("cuda"):
            torch.cuda.synchronize()
        seconds = time.perf_counter() - start
        return {"seconds": seconds, "outputs": write_outputs(outputs_of(result), Path(outputs))}

    def time(self, samples: int) -> Message:
        """Time calls on the inputs of the last run."""
        times, busy = self.clock.sample(bind_call(self.model, self.inputs), samples)
        return {"samples_ms": times, "cores": busy, "method": self.clock.method}


def write_outputs(outputs: list[Any], path: Path) -> list[Message]:
    """Write tensors one after the other as raw bytes; returns their types, shapes and dtypes."""
    import torch

    described: list[Message] = []
    with path.open("wb") as file:
        for output in outputs:
            kind = type(output).__name__
            if type(output) not in (torch.Tensor, torch.nn.Parameter):
                described.append({"type": kind, "shape": None, "dtype": None})
                continue
            data = output.detach().cpu().contiguous()
            described.append({"type": kind, "shape": list(data.shape), "dtype": str(data.dtype).removeprefix("torch.")})
            data.reshape(-1).view(torch.uint8).numpy().tofile(file)
    return described


def stage_of(error: BaseException) -> str:
    """'compile' when a compiler or Python's own parser refused the source, else 'run'."""
    if isinstance(error, SyntaxError):
        return "compile"
    frames = traceback.extract_tb(error.__traceback__)
    return "compile" if any(part in frame.filename for frame in frames for part in _COMPILERS) else "run"
