"""The worker that calls compiled modules of one problem.

Neither torch nor the compiler is imported here, so that a machine that only runs modules needs IREE's runtime alone.
"""

from __future__ import annotations

import gc
import pickle
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...core import MlirProblem, Status
from ..workers.channel import Channel, ChannelClosedError, Message
from .answers import TEXT_LENGTH
from .comparison import SLACK, Difference, compare, is_whole

if TYPE_CHECKING:
    from .comparison import Array

DEFAULT = "default"
"""The name of the module as IREE schedules it by itself, which is loaded first."""


class Modules:
    """The loaded modules of one problem, and one draw of its inputs; each request is a method."""

    def __init__(self, driver: str) -> None:
        import iree.runtime

        self._runtime = iree.runtime
        self._config = iree.runtime.Config(driver)
        self._loaded: dict[str, tuple[Any, Any, Any]] = {}

    def open(self, problem: str, repeats: int) -> Message:
        """Take the problem of a file that the caller wrote; each of its dispatches runs `repeats` times in a call."""
        self._problem: MlirProblem = pickle.loads(Path(problem).read_bytes())
        self._repeats = repeats
        return {}

    def load(self, name: str, path: str) -> Message:
        """Load a compiled module under a name."""
        runtime, config = self._runtime, self._config
        # Copied: to map a file, IREE's bindings open it for writing.
        module = runtime.VmModule.copy_buffer(config.vm_instance, Path(path).read_bytes())
        hal = runtime.create_hal_module(config.vm_instance, config.device)
        context = runtime.VmContext(config.vm_instance, modules=[hal, module])
        self._loaded[name] = (context, module.lookup_function(self._problem.function), module)
        return {}

    def drop(self, name: str) -> Message:
        """Forget a module."""
        self._loaded.pop(name, None)
        return {}

    def draw(self, seed: int) -> Message:
        """Draw inputs; return how the default module differs from NumPy: its root mean square error, None without."""
        self._inputs = self._problem.draw(seed)
        self._uploaded = [self._upload(value) for value in self._inputs]
        self._poison = [_poisoned(value) for value in self._inputs]
        numpys = self._problem.reference(self._inputs)
        self._default_results = self._call(DEFAULT, self._inputs)
        self._numpys, self._slack = numpys, 0.0
        if numpys is None:
            return {"own_error": None, **asdict(Difference())}
        # Only its size matters here: an error of a tenth shows that they do not compute the same.
        difference = compare(numpys, self._default_results, self._problem.tolerances, "NumPy's", slack=0.1)
        self._slack = SLACK * difference.rms_error
        return {"own_error": difference.rms_error, **asdict(difference)}

    def check(self, name: str) -> Message:
        """Compare a module's results with NumPy's and with the default module's, and call it twice.

        Memory that the results may get held NaN before, so that elements that are not written show.
        """
        tolerances = self._problem.tolerances
        self._call(DEFAULT, self._poison)
        actual = self._call(name, self._inputs)
        own = compare(self._default_results, actual, tolerances, "the default module's", self._slack)
        beside = own if self._numpys is None else compare(self._numpys, actual, tolerances, "NumPy's", self._slack)
        worse = beside if beside.status is not Status.OK or own.status is Status.OK else own
        error = None if self._numpys is None else beside.rms_error
        again = self._call(name, self._inputs) if worse.status is Status.OK else actual
        same = all(result.tobytes() == repeated.tobytes() for result, repeated in zip(actual, again, strict=True))
        return {**asdict(worse), "rms_error": error, "deterministic": same}

    def time(self, name: str, samples: int) -> Message:
        """Time single calls; return milliseconds of one run of the module, and the cores that were used.

        The inputs stay on the device from call to call, where a module that adds to one of them keeps on adding.
        """
        gc.disable()
        try:
            taken, started, busy = [], time.perf_counter(), time.process_time()
            for _ in range(samples):
                begin = time.perf_counter()
                results = self._invoke(name, self._uploaded)
                taken.append((time.perf_counter() - begin) * 1e3 / self._repeats)
                del results
            wall, busy = time.perf_counter() - started, time.process_time() - busy
        finally:
            gc.enable()
        repeated = f", each dispatch {self._repeats} times" if self._repeats > 1 else ""
        method = f"wall clock of a call by IREE's runtime{repeated}"
        told = {"host_ms": [item * self._repeats for item in taken]} if self._repeats > 1 else {}
        return {"samples_ms": taken, "method": method, "cores": busy / wall, **told}

    def _upload(self, array: Array) -> Any:
        runtime, device = self._runtime, self._config.device
        return device.allocator.allocate_buffer_copy(
            memory_type=runtime.MemoryType.DEVICE_LOCAL,
            allowed_usage=runtime.BufferUsage.DEFAULT,
            device=device,
            buffer=array,
            element_type=runtime.array_interop.map_dtype_to_element_type(array.dtype),
        )

    def _invoke(self, name: str, inputs: Sequence[Any]) -> Any:
        context, function, _ = self._loaded[name]
        given, results = self._runtime.VmVariantList(len(inputs)), self._runtime.VmVariantList(1)
        for value in inputs:
            given.push_ref(value)
        context.invoke(function, given, results)
        return results

    def _call(self, name: str, inputs: Sequence[Array]) -> list[Array]:
        """Return the results as arrays of their own; the inputs are copied first, since IREE may write into them."""
        results = self._invoke(name, [self._upload(value) for value in inputs])
        view, device = self._runtime.HalBufferView, self._config.device
        arrays = (
            self._runtime.DeviceArray(device, results.get_as_object(i, view)).to_host() for i in range(results.size)
        )
        return [array.copy() for array in arrays]


def _poisoned(array: Array) -> Array:
    import numpy as np

    return np.full_like(array, 99 if is_whole(array) else np.nan)


def serve(channel: Channel, options: Message) -> None:
    """Serve requests until the caller closes the channel; the option `driver` is IREE's name of what runs modules."""
    modules = None
    while True:
        try:
            request = channel.receive()
        except ChannelClosedError:
            return
        nonce = request.pop("nonce")
        try:
            modules = modules or Modules(options["driver"])
            answer = {"ok": True, **getattr(modules, request.pop("op"))(**request)}
        except Exception as error:  # what a module fails with is its result
            answer = {"ok": False, "error": f"{type(error).__name__}: {error}"[:TEXT_LENGTH]}
        channel.send({**answer, "nonce": nonce})
