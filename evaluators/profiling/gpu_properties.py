"""Torch's properties of a GPU, for processes that must not open it."""

from __future__ import annotations

from typing import Any

PROPERTIES = (
    "name",
    "major",
    "minor",
    "gcnArchName",
    "multi_processor_count",
    "total_memory",
    "shared_memory_per_block",
    "shared_memory_per_block_optin",
    "shared_memory_per_multiprocessor",
    "regs_per_multiprocessor",
    "max_threads_per_multi_processor",
    "warp_size",
    "L2_cache_size",
    "clock_rate",
)
"""Properties that a kernel may query; 'major' and 'minor' are required, others are optional, as `gcnArchName`
of AMD's GPUs is."""


def describe_gpu(device: str) -> dict[str, Any]:
    """Return the properties of a GPU of this machine, for `pretend` in another process. Opens the GPU."""
    import torch

    found = torch.cuda.get_device_properties(device)
    return {name: getattr(found, name) for name in PROPERTIES if hasattr(found, name)}
