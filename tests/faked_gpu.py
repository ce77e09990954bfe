"""Torch as it is where a GPU is, as far as torch's compiler looks: it writes code for a GPU that is not there.

    with faked_gpu() as device: ...

Tensors are fake, and products' templates are not measured: the first choice is taken.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch

H200 = SimpleNamespace(
    name="NVIDIA H200", major=9, minor=0, multi_processor_count=132, total_memory=141 << 30, warp_size=32,
    regs_per_multiprocessor=65536, max_threads_per_multi_processor=2048, max_threads_per_block=1024,
    L2_cache_size=60 << 20, shared_memory_per_block=49152, shared_memory_per_block_optin=232448,
    shared_memory_per_multiprocessor=233472, gcnArchName="", uuid="",
)  # fmt: skip


def _nothing(*_: Any, **__: Any) -> None:
    return None


def _zero(*_: Any) -> int:
    return 0


def _state(*_: Any) -> torch.Tensor:
    return torch.zeros(16, dtype=torch.uint8)


REPLACED: dict[str, Any] = {
    "torch.cuda.is_available": lambda: True,
    "torch.cuda.device_count": lambda: 1,
    "torch.cuda.current_device": _zero,
    "torch.cuda.get_device_properties": lambda *_: H200,
    "torch.cuda._get_device_properties": lambda *_: H200,
    "torch.cuda.get_device_capability": lambda *_: (9, 0),
    "torch.cuda.get_device_name": lambda *_: H200.name,
    "torch.cuda.is_bf16_supported": lambda *_, **__: True,
    "torch.cuda._lazy_init": _nothing,
    "torch.cuda.random._lazy_init": _nothing,
    "torch.cuda.random.get_rng_state": _state,
    "torch.cuda.get_rng_state": _state,
    "torch.cuda.set_rng_state": _nothing,
    "torch.cuda._exchange_device": _zero,
    "torch.cuda._maybe_exchange_device": _zero,
    "torch.cuda.synchronize": _nothing,
    "torch.cuda.set_device": _nothing,
    "torch._C._cuda_getCurrentRawStream": _zero,
    "torch.version.cuda": "13.0",
    "torch._inductor.fx_passes.joint_graph.lazy_init": _nothing,
}


class _Driver:
    """Of Triton."""

    get_current_device = staticmethod(_zero)
    get_current_stream = staticmethod(_zero)
    is_active = staticmethod(lambda: True)

    @staticmethod
    def get_current_target() -> Any:
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", 90, 32)


@contextlib.contextmanager
def faked_gpu() -> Iterator[None]:
    """Inside, torch's compiler finds an H200."""
    from torch._inductor.select_algorithm import AlgorithmSelectorCache
    from triton.runtime.driver import driver

    def first(self: Any, name: str, choices: Any, *_: Any, **__: Any) -> Any:
        chosen = next((choice for choice in choices if type(choice).__name__ == "TritonTemplateCaller"), choices[0])
        return chosen.output_node(), chosen

    with contextlib.ExitStack() as stack:
        for name, value in REPLACED.items():
            stack.enter_context(mock.patch(name, value, create=True))
        stack.enter_context(mock.patch.object(AlgorithmSelectorCache, "__call__", first))
        stack.enter_context(mock.patch.object(driver, "_active", _Driver()))
        yield


def fake_model(model: Any, inputs: Any) -> tuple[Any, list[Any]]:
    """Return a model and inputs from 'meta' with fake tensors on the GPU in the place of theirs."""
    from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

    mode = FakeTensorMode()

    def fake(tensor: Any) -> Any:
        return FakeTensor(mode, tensor.detach().to("meta"), torch.device("cuda", 0))

    for module in model.modules():
        for name, parameter in list(module._parameters.items()):
            if parameter is not None:
                module._parameters[name] = torch.nn.Parameter(fake(parameter), requires_grad=False)
        for name, buffer in list(module._buffers.items()):
            if buffer is not None:
                module._buffers[name] = fake(buffer)
    return model, [fake(value) if isinstance(value, torch.Tensor) else value for value in inputs]
