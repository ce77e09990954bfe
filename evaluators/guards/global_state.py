"""State of the process and of the device that belongs to the evaluator, as values that can be compared."""

from __future__ import annotations

import ctypes
import gc
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

from ..timing.l2_flush import driver as loaded_driver

_PERSISTING_L2_LIMIT = 0x06
"""CU_LIMIT_PERSISTING_L2_CACHE_SIZE of the CUDA driver API."""
_ACCESS_POLICY_WINDOW = 1
"""CU_STREAM_ATTRIBUTE_ACCESS_POLICY_WINDOW."""
_OPERATORS = (
    "aten::mul.out", "aten::copy_", "aten::clone", "aten::equal", "aten::eq.Tensor", "aten::isnan", "aten::full_like",
    "aten::empty.memory_format", "aten::randn", "aten::rand", "aten::normal_", "aten::uniform_", "aten::_to_copy",
)  # fmt: skip
"""Operators that drawing, copying and comparing dispatch: a candidate could register its own code for them."""
_BACKENDS = ("CPU", "CUDA", "AutogradCPU", "AutogradCUDA", "ADInplaceOrView", "BackendSelect", "Python")
_HOOKS = (
    "_global_forward_hooks", "_global_forward_pre_hooks", "_global_parameter_registration_hooks",
    "_global_module_registration_hooks", "_global_buffer_registration_hooks",
)  # fmt: skip

State = dict[tuple[str, str], Any]
"""The values read, by rule and name."""


class GlobalState:
    """Reads the state. What a candidate's code could replace is bound when this is created, before that code runs.

    Whether gradients are recorded is left out: it affects only the candidate, and the worker's loop sets it.
    """

    def __init__(self, device: str) -> None:
        self._readers = {("global-state", name): read for name, read in {**_of_python(), **_of_torch()}.items()}
        if device.startswith("cuda"):
            self._readers |= _of_cuda()

    def hooks(self) -> dict[tuple[str, str], Callable[[], Any]]:
        """Return readers of the hooks through which untrusted code may run while new inputs are written."""
        names = ("sys.settrace", "sys.setprofile", "gc.callbacks", "torch's function modes", "torch's dispatch modes")
        return {("global-state", name): self._readers["global-state", name] for name in names}

    def read(self) -> State:
        """Return the state by rule ('global-state', 'stream', 'l2-policy') and name."""
        return {key: read() for key, read in self._readers.items()}


def _of_python() -> dict[str, Callable[[], Any]]:
    handler, timer = signal.getsignal, signal.getitimer
    signals = sorted(signal.valid_signals())
    timers = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
    return {
        "sys.settrace": sys.gettrace,
        "sys.setprofile": sys.getprofile,
        "threading.setprofile": lambda: (threading.getprofile(), threading.gettrace()),
        "gc.callbacks": lambda: [id(callback) for callback in gc.callbacks],
        "gc.set_threshold": gc.get_threshold,
        "sys.setswitchinterval": sys.getswitchinterval,
        "signal handlers": lambda: [handler(number) for number in signals],
        "timers": lambda: [timer(which)[0] > 0 for which in timers],
    }


def _of_torch() -> dict[str, Callable[[], Any]]:
    import torch
    from torch.nn.modules import module

    # Not torch.get_default_device, which creates a tensor to find out: only a mode can have changed it.
    dump = torch._C._dispatch_dump
    readers: dict[str, Callable[[], Any]] = {
        "torch's default dtype": torch.get_default_dtype,
        "torch.library": lambda: [_registered(dump(name)) for name in _OPERATORS],
        "torch's function modes": torch._C._len_torch_function_stack,
        "torch's dispatch modes": torch._C._len_torch_dispatch_stack,
        "torch.set_num_threads": torch.get_num_threads,
        "torch.use_deterministic_algorithms": torch.are_deterministic_algorithms_enabled,
        "torch.autocast": lambda: (torch.is_autocast_enabled("cpu"), torch.is_autocast_enabled("cuda")),
        "hooks of all modules": lambda: [len(getattr(module, name, ())) for name in _HOOKS],
    }
    return readers


def _registered(dump: str) -> list[str]:
    """Return the lines of a dispatcher's table that say what runs on a device."""
    return [line for line in dump.splitlines() if line.split("[")[0].split(":")[0].strip() in _BACKENDS]


def _of_cuda() -> dict[tuple[str, str], Callable[[], Any]]:
    """Return readers for the current device; creates its context if there is none."""
    import torch

    torch.empty(1, device="cuda")  # without a context the driver reports no limits
    stream, driver = torch.cuda.current_stream, loaded_driver()
    readers: dict[tuple[str, str], Callable[[], Any]] = {
        ("stream", "torch's current stream"): lambda: stream().cuda_stream,
        ("stream", "a graph that is being captured"): torch.cuda.is_current_stream_capturing,
        ("global-state", "torch's current device"): torch.cuda.current_device,
        ("global-state", "torch's allocator"): torch.cuda.memory.get_allocator_backend,
    }
    if driver is not None:
        readers[("l2-policy", "the limit of persisting L2 lines")] = lambda: _persisting_l2(driver)
        readers[("l2-policy", "the access policy of the stream")] = lambda: _access_policy(driver)
    return readers


def _persisting_l2(driver: Any) -> int | None:
    """Bytes of L2 set aside for persisting accesses."""
    value = ctypes.c_size_t()
    return None if driver.cuCtxGetLimit(ctypes.byref(value), _PERSISTING_L2_LIMIT) else value.value


def _access_policy(driver: Any) -> int | None:
    """Bytes that the default stream's accesses prefer to keep in L2; the second word of the attribute."""
    if not hasattr(driver, "cuStreamGetAttribute"):
        return None
    value = (ctypes.c_size_t * 16)()
    failed = driver.cuStreamGetAttribute(ctypes.c_void_p(None), _ACCESS_POLICY_WINDOW, ctypes.byref(value))
    return None if failed else value[1]
