"""A device on which nothing runs: tensors without memory, and a GPU that is described but never opened.

A process that calls `pretend` can only compile afterwards: functions of torch and of languages that query the GPU
are replaced for good by ones that use the description.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..devices import no_gpus
from ..languages.base import UntraceableCallError, imported_supports
from ..languages.described_gpu import torch_answers

# Of c10::DeviceType.
_CUDA, _META = 1, 14


def fake_cuda_device(device: str, properties: Mapping[str, Any] | None) -> Any:
    """Make torch in this process see a GPU, unless `device` is 'cpu'; return the fake tensors' mode.

    Inside the mode tensors have shape, strides, dtype and device, and operators compute only these.
    """
    import torch
    from torch._subclasses import fake_tensor

    fake_tensor.FakeTensor.data_ptr = _data_ptr
    torch.compile = _refuse_compile
    if device.startswith("cuda"):
        if properties is None:
            raise ValueError("compiling for a GPU needs its properties, at least 'major' and 'minor'")
        # A context on the real GPU would take memory there and disturb timings.
        os.environ.update(no_gpus())
        for name in ("init_gpu_context", "init_cuda_context"):
            if hasattr(fake_tensor, name):
                setattr(fake_tensor, name, lambda *_: None)
        # torch.tensor(..., device="cuda") would otherwise create a real tensor first and open the GPU for it.
        fake_tensor.FakeTensorMode.avoid_device_init = True
        _replace_guards()
        _replace_cuda(properties)
    return fake_tensor.FakeTensorMode(allow_non_fake_inputs=True)


def move(model: Any, device: str) -> None:
    """Do `model.to(device)` for fake tensors, whose contents `to` cannot swap while the mode tracks them."""
    moved: dict[Any, Any] = {}

    def on_device(tensor: Any) -> Any:
        import torch

        if tensor not in moved:
            there = tensor.detach().to(device)
            is_weight = isinstance(tensor, torch.nn.Parameter)
            moved[tensor] = torch.nn.Parameter(there, tensor.requires_grad) if is_weight else there
        return moved[tensor]

    for module in model.modules():
        for tensors in (module._parameters, module._buffers):
            tensors.update({name: on_device(tensor) for name, tensor in tensors.items() if tensor is not None})


def _data_ptr(tensor: Any) -> int:
    """Return an address for a language that specializes a kernel on its alignment; real allocations are aligned."""
    caller = sys._getframe(1).f_globals
    if any(support.takes_addresses(caller) for support in imported_supports()):
        offset: int = tensor.storage_offset() * tensor.element_size()
        return offset
    raise UntraceableCallError("the address of a tensor")


def _refuse_compile(*_: Any, **__: Any) -> Any:
    """Replace torch.compile, which would silently do nothing to fake tensors."""
    raise UntraceableCallError("what torch.compile makes of a function")


def _replace_guards() -> None:
    """Stop operators that select a device before they run, such as indexing, from selecting one."""
    import torch

    # Works where torch has CUDA and no GPU is visible.
    torch._C._ensureCUDADeviceGuardSet()
    # A build without CUDA has no guard to replace: use the one of the device 'meta', which does nothing.
    with contextlib.suppress(OSError, ValueError):
        library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libc10.so"))
        guards = (ctypes.c_void_p * (_META + 1)).in_dll(library, "_ZN3c104impl26device_guard_impl_registryE")
        guards[_CUDA] = guards[_CUDA] or guards[_META]


def _replace_cuda(properties: Mapping[str, Any]) -> None:
    import torch

    def closed(*_: Any, **__: Any) -> Any:
        raise UntraceableCallError("an answer of the GPU")

    replacements = {
        **torch_answers(properties),
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "_exchange_device": lambda index: index,
        "_maybe_exchange_device": lambda index: index,
        "_lazy_init": closed,
    }
    for name, replacement in replacements.items():
        setattr(torch.cuda, name, replacement)
