"""Makes torch answer questions about a GPU that is described but not opened."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

USUAL = "H100"
"""The GPU for which launchers on a CPU choose, where none is named."""
_chosen = [USUAL]


def describe_gpu(name: str) -> None:
    """From now on let launchers of this process choose for this GPU, a name of `core.devices.cards`."""
    _chosen[0] = name


def described_gpu() -> dict[str, Any]:
    """Return torch's properties of the GPU for which launchers on a CPU choose."""
    from ...core.devices import cards, torch_properties  # not with the help, which imports this module

    return torch_properties(*cards()[_chosen[0]])


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
