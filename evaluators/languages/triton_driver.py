"""Drivers of Triton's for a GPU that is not there: to compile for it, and to interpret on a CPU."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from ...core.devices import architecture, architecture_name, kind_of
from .base import UntraceableCallError
from .triton_interpreter.limits import InterpreterLimitError


def triton_target(properties: Mapping[str, Any]) -> Any:
    """Return what Triton compiles for on a GPU with these properties of torch's."""
    from triton.backends.compiler import GPUTarget

    of = architecture(architecture_name(properties))
    return GPUTarget(kind_of(of.name).id, of.triton, of.warp_size)


class InterpretedDriver:
    """Stands for Triton's driver on a CPU: it answers what launchers ask about a GPU with these properties."""

    def __init__(self, target: Any, properties: Mapping[str, Any]) -> None:
        """`properties` are torch's."""
        self._target = target
        self.utils = SimpleNamespace(get_device_properties=lambda device=0: _triton_properties(properties))

    def get_current_target(self) -> Any:
        """Return what a GPU's compiler would compile for."""
        return self._target

    def get_current_device(self) -> int:
        """Return the first."""
        return 0

    def set_current_device(self, device: int) -> None:
        """Select none."""

    def get_current_stream(self, device: int = 0) -> int:
        """Return the default one."""
        return 0

    def get_active_torch_device(self) -> Any:
        """Return where the interpreter's tensors are."""
        import torch

        return torch.device("cpu")

    def get_device_interface(self) -> Any:
        """Return torch's module of GPUs."""
        import torch

        return torch.cuda

    def __getattr__(self, name: str) -> Any:
        raise InterpreterLimitError(f"answer for a GPU's driver ({name})")


def _triton_properties(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return torch's properties by the names that Triton's driver gives them."""
    return {
        "max_shared_mem": properties.get("shared_memory_per_block_optin") or properties["shared_memory_per_block"],
        "max_num_regs": properties["regs_per_multiprocessor"],
        "multiprocessor_count": properties["multi_processor_count"],
        "warpSize": properties["warp_size"],
        "sm_clock_rate": properties["clock_rate"],
        "mem_clock_rate": properties.get("memory_clock_rate", 0),
        "mem_bus_width": properties.get("memory_bus_width", 0),
    }


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
        raise UntraceableCallError(f"an answer of Triton's driver ({name})")
