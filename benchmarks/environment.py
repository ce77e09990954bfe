"""On what a benchmark of tuners ran, for its record."""

from __future__ import annotations

from importlib import import_module

from kernelwright.api.devices import device_label

LIBRARIES = ("numpy", "scipy", "xgboost")
"""What the tuners compute with."""


def tuners_environment() -> dict[str, str]:
    """The processor and the versions that a tuner's own time and choices depend on."""
    return {"processor": device_label("cpu"), **{name: import_module(name).__version__ for name in LIBRARIES}}
