"""A driver of Triton's for a GPU that is not there."""

from __future__ import annotations

from typing import Any

from .base import UntraceableCall


class DescribedDriver:
    """Stands for Triton's driver: knows what to compile for, and refuses to load or to run."""

    def __init__(self, target: Any) -> None:
        self._target = target

    def get_current_target(self) -> Any:
        """Return what to compile for."""
        return self._target

    def get_current_device(self) -> int:
        """Return the first."""
        return 0

    def get_current_stream(self, device: int) -> int:
        """Return the default one."""
        return 0

    def get_active_torch_device(self) -> Any:
        """Return the first, as torch names it."""
        import torch

        return torch.device("cuda", 0)

    def __getattr__(self, name: str) -> Any:
        raise UntraceableCall(f"an answer of Triton's driver ({name})")
