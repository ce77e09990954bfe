"""Optional libraries: each is an extra of the package. If one is missing, the error is one line."""

from __future__ import annotations

from importlib.util import find_spec

from .errors import OptionError

EXTRAS = {"triton": "triton"}
"""Extras of the package that install modules which kernels import, by module."""


def how_to_install(module: str) -> str:
    """Return a hint how to install a module that kernels import."""
    package = f"'kernelwright[{EXTRAS[module]}]'" if module in EXTRAS else module
    return f"pip install {package}"


def is_installed(module: str) -> bool:
    """Return whether a module is installed, without importing it."""
    return find_spec(module) is not None


def require_extra(what: str, module: str, extra: str) -> None:
    """Raise `OptionError` with the name of the extra if the module is not installed."""
    if not is_installed(module):
        raise OptionError(f"{what} needs {module}, which is not installed", f"pip install 'kernelwright[{extra}]'")
