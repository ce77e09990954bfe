"""Libraries that only some features need: each is an extra of the package, and its absence one line."""

from __future__ import annotations

from importlib.util import find_spec

from .errors import OptionError

EXTRAS = {"triton": "triton"}
"""Modules that kernels import, by the extra that brings them."""


def how_to_install(module: str) -> str:
    """A hint for a module that kernels import."""
    package = f"'kernelwright[{EXTRAS[module]}]'" if module in EXTRAS else module
    return f"pip install {package}"


def is_installed(module: str) -> bool:
    """Whether a module could be imported; it is not."""
    return find_spec(module) is not None


def require_extra(what: str, module: str, extra: str) -> None:
    """Raise `OptionError`, which names the extra, where the module is not installed."""
    if not is_installed(module):
        raise OptionError(f"{what} needs {module}, which is not installed", f"pip install 'kernelwright[{extra}]'")
