"""The config files of engines, by the names of their formats."""

from __future__ import annotations

from ....core import OptionError
from .aiter import Aiter, AiterLegacy, Own
from .sglang import Sglang
from .store import Store
from .triton_cache import TritonCache
from .tune_gemm import TuneGemm
from .vllm import Vllm

_STORES: dict[str, type[Store]] = {
    item.id: item for item in (Own, Aiter, AiterLegacy, Vllm, Sglang, TuneGemm, TritonCache)
}


def names() -> list[str]:
    """Return the names of all formats."""
    return list(_STORES)


def store_of(name: str) -> Store:
    """Return the store of a format; raises `OptionError` for an unknown one."""
    if name not in _STORES:
        raise OptionError(f"`format` {name!r} is not known", f"use {', '.join(_STORES)}")
    return _STORES[name]()
