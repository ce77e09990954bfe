"""Makes torch answer questions about a GPU that is described but not opened."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any


def _gpu(
    name: str, capability: tuple[int, int], multiprocessors: int, gigabytes: float, kilobytes: int, l2_mb: int, mhz: int
) -> dict[str, Any]:
    """Return a GPU's properties as torch gives them; `kilobytes` of shared memory may a block have, with an option."""
    newest = capability in ((8, 6), (8, 9), (12, 0))
    return {
        "name": name,
        "major": capability[0],
        "minor": capability[1],
        "multi_processor_count": multiprocessors,
        "total_memory": int(gigabytes * 1e9),
        "shared_memory_per_block": 48 << 10,
        "shared_memory_per_block_optin": kilobytes << 10,
        "shared_memory_per_multiprocessor": (kilobytes + (capability >= (8, 0))) << 10,
        "regs_per_multiprocessor": 65536,
        "max_threads_per_multi_processor": 1024 if capability < (8, 0) else 1536 if newest else 2048,
        "max_threads_per_block": 1024,
        "warp_size": 32,
        "L2_cache_size": l2_mb << 20,
        "clock_rate": mhz * 1000,
    }


DESCRIBED: dict[str, dict[str, Any]] = {
    "T4": _gpu("Tesla T4", (7, 5), 40, 15.6, 64, 4, 1590),
    "A10": _gpu("NVIDIA A10", (8, 6), 72, 23.8, 99, 6, 1695),
    "L4": _gpu("NVIDIA L4", (8, 9), 58, 23.7, 99, 48, 2040),
    "L40S": _gpu("NVIDIA L40S", (8, 9), 142, 47.7, 99, 96, 2520),
    "A100": _gpu("NVIDIA A100-SXM4-40GB", (8, 0), 108, 42.4, 163, 40, 1410),
    "A100-80GB": _gpu("NVIDIA A100-SXM4-80GB", (8, 0), 108, 85.1, 163, 40, 1410),
    "RTX-PRO-6000": _gpu("NVIDIA RTX PRO 6000 Blackwell Server Edition", (12, 0), 188, 101.9, 99, 128, 2617),
    "H100": _gpu("NVIDIA H100 80GB HBM3", (9, 0), 132, 85.0, 227, 50, 1980),
    "H200": _gpu("NVIDIA H200", (9, 0), 132, 150.1, 227, 60, 1980),
    "B200": _gpu("NVIDIA B200", (10, 0), 148, 191.5, 227, 126, 1965),
}
"""GPUs as their data sheets have them, by the names of `gpu`: launchers on a CPU may choose for each."""
USUAL = "H100"
"""The one for which they choose."""
_chosen = [USUAL]


def describe_gpu(name: str) -> None:
    """From now on let launchers of this process choose for this GPU."""
    _chosen[0] = name


def described_gpu() -> dict[str, Any]:
    """Return torch's properties of the GPU for which launchers on a CPU choose."""
    return DESCRIBED[_chosen[0]]


_TRUSTED = frozenset(["torch", "triton", "numpy", __name__.partition(".")[0]])
"""Packages that read on which device a tensor is."""


def torch_answers(properties: Mapping[str, Any]) -> dict[str, Callable[..., Any]]:
    """Return functions of `torch.cuda` by name, which answer as of a GPU with these properties."""
    described = SimpleNamespace(**properties)
    capability = (described.major, described.minor)
    return {
        "current_device": lambda: 0,
        "get_device_capability": lambda *_, **__: capability,
        "get_device_properties": lambda *_, **__: described,
        "get_device_name": lambda *_, **__: described.name,
        "set_device": lambda *_: None,
        "synchronize": lambda *_, **__: None,
    }


class DefaultStream:
    """Stands for a GPU's stream, where launches run when they are made."""

    cuda_stream = 0

    def __init__(self, *_: Any, **__: Any) -> None:
        """Take whatever a stream takes."""

    def __enter__(self) -> None:
        """Select it."""

    def __exit__(self, *_: object) -> None:
        """Select the one before."""

    def query(self) -> bool:
        """Return whether everything is done."""
        return True

    def synchronize(self, *_: Any) -> None:
        """Wait for nothing: everything is done."""

    wait_stream = wait_event = record_event = synchronize


class AnyDevice:
    """Stands for `torch.cuda.device`, whatever it is to select: tensors of a CPU have no GPU."""

    def __init__(self, *_: Any) -> None:
        """Take a device, or None."""

    def __enter__(self) -> None:
        """Select it."""

    def __exit__(self, *_: object) -> None:
        """Select the one before."""


def answer_on_cpu(properties: Mapping[str, Any]) -> None:
    """Let this process, which has no GPU, answer what a launcher asks about one.

    Torch goes on to find no GPU, and to refuse tensors there: `is_available` is False. Only who asks a tensor from
    outside of torch is told that it is on a GPU: launchers refuse others.
    """
    import torch

    stream = DefaultStream()
    replacements = {
        **torch_answers(properties),
        "device": AnyDevice,
        "device_of": AnyDevice,
        "Stream": DefaultStream,
        "stream": lambda *_: DefaultStream(),
        "current_stream": lambda *_: stream,
        "default_stream": lambda *_: stream,
    }
    for name, replacement in replacements.items():
        setattr(torch.cuda, name, replacement)
    torch.Tensor.is_cuda = property(_is_cuda)


def _is_cuda(tensor: Any) -> bool:
    return str(sys._getframe(1).f_globals.get("__name__")).partition(".")[0] not in _TRUSTED
