"""The worker that compiles ahead: it fills the disk cache of kernels and runs nothing on the device.

The request compile (source file) returns {"ok": true, ...}, see `candidate.responses.CompileResponse`, or
{"ok": false, "stage": "compile" | "ahead", "error": ...}. 'compile': a compiler refused the source; 'ahead': only a
real call can show the outcome.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from ..candidate.responses import MOST_PARAMETERS, MOST_SIGNATURES
from ..candidate.worker import stage_of
from ..correctness.distributions import with_other_strides
from ..languages.base import LanguageSupport, RecordedLaunch, UntraceableCallError, imported_supports
from ..workers.channel import Channel, Message
from ..workers.modules import ProblemModule, load_weights, outputs_of
from ..workers.request_loop import describe, serve_requests
from ..workers.user_modules import CandidateModules
from .fake_device import fake_cuda_device, move
from .trace import OperatorTrace, recording


class SharedMemoryExceededError(Exception):
    """A kernel uses more shared memory than a block of the device may have."""


def serve(channel: Channel, options: Message) -> None:
    """Serve requests until the channel closes.

    Options: problem, sizes and device as for any worker, and for a GPU its `properties` (`gpu_properties.PROPERTIES`).
    With `strides` each kernel is compiled for inputs that are not contiguous too.
    """
    compiler = CompileWorker(
        Path(options["problem"]),
        options["sizes"],
        options["device"],
        options.get("properties"),
        options.get("strides", False),
        options.get("package"),
    )
    compiler.warm_up()
    serve_requests(channel, {"compile": compiler.compile}, failed)


def failed(error: BaseException) -> Message:
    """Return the response for an exception."""
    return {"stage": _stage_of(error), "error": describe(error)}


class CompileWorker:
    """Compiles one config after the other for the same problem and device."""

    def __init__(
        self,
        problem: Path,
        sizes: Message,
        device: str,
        properties: Message | None,
        strides: bool = False,
        package: Message | None = None,
    ) -> None:
        self._modules = CandidateModules(package)  # with real tensors, if it makes any
        self._path, self._sizes, self._strides = problem, sizes, strides
        # With an index, torch does not query the current GPU.
        self._device = "cuda:0" if device == "cuda" else device
        self._properties = properties
        self._trace = OperatorTrace()
        self._signatures: set[tuple[str, ...]] = set()
        self._captured: list[LanguageSupport] = []
        self._flags = _flags()

    @cached_property
    def _fake(self) -> Any:
        fake = fake_cuda_device(self._device, self._properties)
        self._capture_launches()
        return fake

    def _capture_launches(self) -> None:
        """Capture those of the languages that are imported by now."""
        for support in imported_supports():
            if support not in self._captured:
                self._captured.append(support)
                support.prepare(self._device)
                if self._properties is not None:
                    support.pretend(self._properties)
                support.capture_launches(self._launched, self._device)

    @cached_property
    def _problem(self) -> tuple[ProblemModule, list[Any]]:
        """Return the problem and its inputs, which use no memory and serve every config."""
        try:
            with self._fake:
                problem = ProblemModule(self._path, self._sizes, self._device)
                return problem, problem.inputs(0)
        except Exception as error:  # not the kernel's fault
            raise UntraceableCallError(f"the problem cannot be read without real tensors: {describe(error)}") from error

    def warm_up(self) -> None:
        """Do the work that the first request would have to wait for."""
        with contextlib.suppress(UntraceableCallError):  # the first request reports it
            _ = self._problem

    def compile(self, source: str, serial: int) -> Message:
        """Execute the kernel's source, construct ModelNew and call it, all on tensors without memory."""
        import torch

        problem, originals = self._problem
        start = time.perf_counter()
        self._trace = OperatorTrace()
        self._signatures.clear()
        _set_flags(self._flags)  # a source before this one may have changed them
        with self._fake, recording(self._trace):
            torch.manual_seed(0)
            module = self._modules.load(f"kernelwright_candidate_{serial}", Path(source))
            self._capture_launches()  # of a language that only this source imports
            model = module.ModelNew(*problem.init_inputs())
            move(model, self._device)
            load_weights(model)  # what packs them is compiled, too
            inputs = [value.clone() if isinstance(value, torch.Tensor) else value for value in originals]
            self._trace.add("forward", _flags(), inputs)
            result = model(*inputs)
        self._trace.add("returned", _flags(), outputs_of(result))
        found = {"seconds": time.perf_counter() - start, "digest": self._trace.digest}
        found["signatures"] = sorted(self._signatures)[:MOST_SIGNATURES]
        if self._strides:
            self._call_with_other_strides(model, originals)
        return found

    def _call_with_other_strides(self, model: Any, originals: list[Any]) -> None:
        """Compile what a call with such inputs needs besides; what fails shows when the kernel runs."""
        self._trace = OperatorTrace()
        with contextlib.suppress(Exception), self._fake:
            model(*map(with_other_strides, originals))

    def _launched(self, launch: RecordedLaunch) -> None:
        limit = (self._properties or {}).get("shared_memory_per_block_optin")
        if limit is not None and (launch.shared_bytes or 0) > limit:
            raise SharedMemoryExceededError(f"{launch.shared_bytes} bytes of shared memory, a block may have {limit}")
        if 0 < len(launch.signature) <= MOST_PARAMETERS:
            self._signatures.add(launch.signature)
        self._trace.add("launch", launch.code, launch.settings, launch.grid, launch.arguments)


def _flags() -> tuple[str, bool, int]:
    """Return settings of torch that change what its operators do."""
    import torch

    return torch.get_float32_matmul_precision(), torch.backends.cudnn.benchmark, torch.get_num_threads()


def _set_flags(flags: tuple[str, bool, int]) -> None:
    """Set what `_flags` returned."""
    import torch

    if flags != _flags():
        torch.set_float32_matmul_precision(flags[0])
        torch.backends.cudnn.benchmark = flags[1]
        torch.set_num_threads(flags[2])


def _stage_of(error: BaseException) -> str:
    from torch._subclasses import fake_tensor

    beyond = (
        UntraceableCallError,
        fake_tensor.DataDependentOutputException,
        fake_tensor.DynamicOutputShapeException,
        fake_tensor.UnsupportedFakeTensorException,
        fake_tensor.UnsupportedOperatorException,
    )
    # A compiler's frames may be between such an exception and this place, or it may wrap the exception.
    if any(isinstance(cause, beyond) for cause in _chain(error)):
        return "ahead"
    return "compile" if isinstance(error, SharedMemoryExceededError) or stage_of(error) == "compile" else "ahead"


def _chain(error: BaseException | None) -> Iterator[Any]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__
