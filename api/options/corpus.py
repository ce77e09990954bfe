"""The options of `verify_corpus`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from ..observers import VerifyObserver
from .groups import DeviceOptions
from .option import described, option


@dataclass(frozen=True, kw_only=True)
class VerifyOptions(DeviceOptions):
    """Check and measure the worked examples, and the shipped kernels."""

    examples: tuple[str, ...] = field(
        default=(),
        kw_only=False,
        metadata=described("Examples, such as triton/softmax-online; all by default."),
    )
    kernels: bool = option(False, "Check every shipped kernel that the device can run too, and time it.")
    record: Path | None = option(None, "File for the metrics; models see those in corpus/examples/measured.json.")
    observer: VerifyObserver | None = option(None, "Watches the examples.", python_only=True)
