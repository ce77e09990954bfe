"""GPU operations for a clock: cache flush, events around a call, capture of a call as a graph.

Every function used while a candidate is timed is torch's own C function, bound before the candidate's code is
loaded: replacing it in a module of torch changes nothing here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...core.text import first_line
from .l2_flush import L2, driver
from .scrub import Scrub

_WARM_UP_CALLS = 3
"""Calls before a capture: libraries allocate workspaces and choose algorithms in the first ones."""


class CaptureError(RuntimeError):
    """A call that cannot be captured in a CUDA graph."""


class CudaEvents:
    """Events on the default stream of one GPU."""

    def __init__(self, device: str) -> None:
        import torch

        self._cuda = torch.cuda
        cache, state = L2(device), Scrub(device, driver())
        self.reset_persisting = cache.reset_persisting

        def flush() -> None:
            state.scrub()  # first: the call is launched while the GPU writes what empties the cache
            cache.flush()

        self.flush: Callable[[], None] = flush
        self.flush_kernel = cache.kernel
        self._begin, self._end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        base = torch._C._CudaEventBase
        self._record: Any = base.record
        self._elapsed: Any = base.elapsed_time
        self._replay: Any = torch._C._CUDAGraph.replay
        self.wait: Callable[[], object] = torch._C._cuda_synchronize
        """Waits until the whole device is idle, other streams included."""
        self._stream = torch.cuda.current_stream(device)

    def start(self) -> None:
        """Record the start event on the stream."""
        self._record(self._begin, self._stream)

    def stop(self) -> None:
        """Record the end event on the stream."""
        self._record(self._end, self._stream)

    def elapsed_ms(self) -> float:
        """Return the milliseconds between the two events, after `wait`."""
        return float(self._elapsed(self._begin, self._end))

    def capture(self, call: Callable[[], object]) -> Callable[[], object]:
        """Capture the call as a graph; return a function that replays it and returns the same output tensors each time.

        Raises `CaptureError` where a graph cannot hold the call.
        """
        cuda, replay = self._cuda, self._replay
        self.wait()
        graph, side = cuda.CUDAGraph(), cuda.Stream()
        with cuda.stream(side):
            for _ in range(_WARM_UP_CALLS):
                call()
        self.wait()
        try:
            with cuda.graph(graph, stream=side):
                outputs = call()
        except RuntimeError as error:
            raise CaptureError(
                "a CUDA graph cannot hold this call (it waits for the device, or copies from the processor): "
                f"{first_line(error)}"
            ) from error

        def replayed() -> object:
            replay(graph)
            return outputs

        return replayed
