"""The environment of a tuner benchmark, for its record."""

from __future__ import annotations

from importlib import import_module

from kernelwright.runtime.devices import device_label

LIBRARIES = ("numpy", "scipy", "xgboost")
"""The packages that the tuners compute with."""


def tuners_environment() -> dict[str, str]:
    """Return the processor and the versions that a tuner's own time and choices depend on."""
    return {"processor": device_label("cpu"), **{name: import_module(name).__version__ for name in LIBRARIES}}
