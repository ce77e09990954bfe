"""The worker that compiles ahead: it fills the disk cache of kernels and runs nothing on the device.

It answers compile (source file) by {"ok": true, ...}, see `answers.Lowered`, or by
{"ok": false, "stage": "compile" | "ahead", "error": ...}. 'compile' is the verdict of a compiler;
'ahead' says that only a real call can tell.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from ..candidate.worker import stage_of
from ..workers.channel import Channel, Message
from ..workers.modules import ProblemModule, load, outputs_of
from ..workers.request_loop import describe, serve_requests
from .fake_device import move, pretend
from .launches import Launch, watch_tilelang, watch_triton
from .trace import Trace, UntraceableCall, recording


class TooMuchShared(Exception):
    """A kernel takes more shared memory than a block of the device may have."""


def serve(channel: Channel, options: Message) -> None:
    """Answer requests until the channel closes.

    Options: problem, sizes, device as of any worker, and for a GPU its `properties` (`gpu_properties.PROPERTIES`).
    """
    compiler = CompileWorker(Path(options["problem"]), options["sizes"], options["device"], options.get("properties"))
    compiler.warm_up()
    serve_requests(channel, {"compile": compiler.compile}, failed)


def failed(error: BaseException) -> Message:
    """The answer for an exception."""
    return {"stage": _stage_of(error), "error": describe(error)}


class CompileWorker:
    """Compiles one config after the other for the same problem and device."""

    def __init__(self, problem: Path, sizes: Message, device: str, properties: Message | None) -> None:
        self._path, self._sizes = problem, sizes
        # An index spares torch from asking which GPU is the current one.
        self._device = "cuda:0" if device == "cuda" else device
        self._properties = properties
        self._trace = Trace()

    @cached_property
    def _fake(self) -> Any:
        fake = pretend(self._device, self._properties)
        if self._device != "cpu":
            watch_triton(self._launched)
        watch_tilelang(self._launched, self._device)
        return fake

    @cached_property
    def _problem(self) -> tuple[ProblemModule, list[Any]]:
        """The problem and its inputs, which cost nothing and serve for every config."""
        try:
            with self._fake:
                problem = ProblemModule(self._path, self._sizes, self._device)
                return problem, problem.inputs(0)
        except Exception as error:  # it says nothing about the kernel
            raise UntraceableCall(f"the problem cannot be read without real tensors: {describe(error)}") from error

    def warm_up(self) -> None:
        """Do now what the first request would have to wait for."""
        with contextlib.suppress(UntraceableCall):  # the first request says it
            _ = self._problem

    def compile(self, source: str, serial: int) -> Message:
        """Execute the kernel's source, construct ModelNew and call it, all on tensors without memory."""
        import torch

        problem, originals = self._problem
        start = time.perf_counter()
        self._trace = Trace()
        with self._fake, recording(self._trace):
            torch.manual_seed(0)
            module = load(f"kernelwright_candidate_{serial}", Path(source))
            model = module.ModelNew(*problem.init_inputs())
            move(model, self._device)
            inputs = [value.clone() if isinstance(value, torch.Tensor) else value for value in originals]
            self._trace.add("forward", _flags(), inputs)
            result = model(*inputs)
        self._trace.add("returned", _flags(), outputs_of(result))
        return {
            "seconds": time.perf_counter() - start,
            "digest": self._trace.digest,
        }

    def _launched(self, launch: Launch) -> None:
        limit = (self._properties or {}).get("shared_memory_per_block_optin")
        if limit is not None and (launch.shared_bytes or 0) > limit:
            raise TooMuchShared(f"{launch.shared_bytes} bytes of shared memory, a block may have {limit}")
        self._trace.add("launch", launch.code, launch.settings, launch.grid, launch.arguments)


def _flags() -> tuple[Any, ...]:
    """Settings of torch that change what its operators do."""
    import torch

    return torch.get_float32_matmul_precision(), torch.backends.cudnn.benchmark, torch.get_num_threads()


def _stage_of(error: BaseException) -> str:
    from torch._subclasses import fake_tensor

    beyond = (
        UntraceableCall,
        fake_tensor.DataDependentOutputException,
        fake_tensor.DynamicOutputShapeException,
        fake_tensor.UnsupportedFakeTensorException,
        fake_tensor.UnsupportedOperatorException,
    )
    # A compiler's frames may lie between such an exception and this place, or wrap it in one of their own.
    if any(isinstance(cause, beyond) for cause in _chain(error)):
        return "ahead"
    return "compile" if isinstance(error, TooMuchShared) or stage_of(error) == "compile" else "ahead"


def _chain(error: BaseException | None) -> Iterator[Any]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__
