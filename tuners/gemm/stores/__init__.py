"""The config files of engines, by the names of their formats."""

from __future__ import annotations

from ....core import OptionError
from .aiter import Aiter, AiterLegacy, KernelwrightFormat
from .sglang import Sglang
from .store import EngineFormat
from .triton_cache import TritonCache
from .tune_gemm import TuneGemm
from .vllm import Vllm

_STORES: dict[str, type[EngineFormat]] = {
    item.id: item for item in (KernelwrightFormat, Aiter, AiterLegacy, Vllm, Sglang, TuneGemm, TritonCache)
}


def names() -> list[str]:
    """Return the names of all formats."""
    return list(_STORES)


def store_of(name: str) -> EngineFormat:
    """Return the store of a format; raises `OptionError` for an unknown one."""
    if name not in _STORES:
        raise OptionError(f"`format` {name!r} is not known", f"use {', '.join(_STORES)}")
    return _STORES[name]()
