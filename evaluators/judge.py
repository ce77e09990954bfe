"""The worker that runs the reference: weights, expected outputs, the comparison, the baseline's time.

It executes the problem's file and nothing of the candidate's. Requests: open, state, check, time, count,
ceilings, properties; answered like the candidate's.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from . import ceilings, counting
from .channel import Channel, Message
from .clock import Clock, bind_call
from .correctness import compare
from .fake_device import describe_gpu
from .modules import ProblemModule, outputs_of
from .serving import Handler, describe, serve_requests


def serve(channel: Channel, options: Message) -> None:
    """Answer requests until the channel closes."""
    use_full_precision()
    judge = Judge(options)
    handlers: dict[str, Handler] = {
        "open": judge.open,
        "state": judge.state,
        "check": judge.check,
        "time": judge.time,
        "count": judge.count,
        "ceilings": judge.ceilings,
        "properties": judge.properties,
    }
    serve_requests(channel, handlers, lambda error: {"error": describe(error)})


class Judge:
    """One problem at one workload on one device."""

    def __init__(self, options: Message) -> None:
        self.options = options
        self.device: str = options["device"]
        self.tolerances: Mapping[str, float] = options["tolerances"]
        self.clock = Clock(self.device)
        self._problem: ProblemModule | None = None
        self._model: Any = None
        self._seed: int | None = None
        self._inputs: list[Any] = []

    @property
    def problem(self) -> ProblemModule:
        if self._problem is None:
            self._problem = ProblemModule(Path(self.options["problem"]), self.options["sizes"], self.device)
        return self._problem

    def open(self) -> Message:
        """Run the reference once; says what machine this is."""
        self._prepare(0)
        outputs_of(self._model(*self._inputs))
        return {"environment": environment(self.device)}

    def _prepare(self, seed: int) -> None:
        if self._seed != seed:
            self._model = self.problem.model(seed)
            self._inputs = self.problem.inputs(seed)
            self._seed = seed

    def state(self, seed: int, path: str) -> Message:
        """Write the weights drawn from the seed, unless there are none."""
        import torch

        self._prepare(seed)
        if state := self._model.state_dict():
            torch.save(state, path)
        return {}

    def check(self, seed: int, path: str, outputs: list[Message]) -> Message:
        """Compare what the candidate wrote for this seed with the reference."""
        self._prepare(seed)
        expected = outputs_of(self._model(*self._inputs))
        return compare(expected, outputs, Path(path), self.tolerances)

    def time(self, samples: int) -> Message:
        """Time the reference on the inputs of the last seed."""
        times, _ = self.clock.sample(bind_call(self._model, self._inputs), samples)
        return {"samples_ms": times, "method": self.clock.method}

    def count(self) -> Message:
        """Count the reference's operations and bytes."""
        self._prepare(0)
        return counting.count(self._model, self._inputs)

    def ceilings(self) -> Message:
        """Measure what the device can do."""
        return ceilings.measure(self.device)

    def properties(self) -> Message:
        """What torch says of the GPU; nothing of a CPU."""
        return {"properties": describe_gpu(self.device) if self.device.startswith("cuda") else None}


def use_full_precision() -> None:
    """Have the reference compute fp32 in fp32: torch lets cuDNN use TF32 for convolutions unless told not to.

    Tolerances are those of fp32, so the expected values and the time to beat must be too.
    """
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False


def environment(device: str) -> dict[str, str]:
    """Device, versions and threads, as texts for the record."""
    import torch

    found = {
        "device": device_name(device),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "threads": str(torch.get_num_threads()),
    }
    from importlib.metadata import PackageNotFoundError, version

    for package in ("tilelang", "triton"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    if device.startswith("cuda"):
        found["cuda"] = torch.version.cuda or ""
        found["tf32"] = "off"
        found["uuid"] = str(torch.cuda.get_device_properties(device).uuid)
    return found


def device_name(device: str) -> str:
    """'NVIDIA H200', or the processor's name and how many of its cores are here."""
    import torch

    if device.startswith("cuda"):
        return str(torch.cuda.get_device_name(device))
    cores = torch.get_num_threads()
    for line in Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else ():
        if line.startswith("model name"):
            return f"{line.split(':', 1)[1].strip()}, {cores} cores"
    return f"{platform.machine()}, {cores} cores"
