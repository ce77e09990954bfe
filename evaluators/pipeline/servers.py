"""Modules that an evaluator's fork servers import, and their environment variables."""

from __future__ import annotations

import re

from ...core import Kernel, Language, known_languages
from ...core.language import plugin_environment
from ..languages.base import supports

ENVIRONMENT = {
    # The profiler's messages would appear in the logs of kernels.
    "KINETO_LOG_LEVEL": "6",
    # Counting devices must not initialize CUDA in the server, since its forks could not use it then.
    "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
    # Keep freed memory for the next call, in candidate and reference. By default malloc returns large blocks or not
    # depending on earlier frees, and page faults make the same call five times slower.
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(16 << 30),
}
"""Variables of the fork servers and all their workers, besides what languages need."""

COMPILERS_IMPORT = "torch._dynamo"
"""Fake tensors import it: seconds that each compiler would spend again."""


def servers_import() -> tuple[str, ...]:
    """Return what all servers import: torch, and the modules that know the languages.

    Languages follow when a kernel needs them: importing TileLang takes as long as importing torch.
    """
    return ("torch", *(type(support).__module__ for support in supports()))


def languages_of(kernel: Kernel) -> tuple[Language, ...]:
    """Return the kernel's language, then others that its source names."""
    return (kernel.language, *(language for language in languages_named(kernel.source) if language != kernel.language))


def languages_named(source: str) -> tuple[Language, ...]:
    """Return the languages that a source names."""
    return tuple(item for item in known_languages() if re.search(rf"\b{re.escape(item.modules[0])}\b", source))


def server_environment(device: str) -> dict[str, str]:
    """Return the variables of servers and workers for a device."""
    found = {**ENVIRONMENT, **plugin_environment()}
    for support in supports():
        found |= {**support.environment, **(support.cpu_environment if device == "cpu" else {})}
    return found
