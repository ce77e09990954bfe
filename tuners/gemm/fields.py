"""A config of this project's kernels, and the fields by which engines call the same."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ...core import Config, Kernel, OptionError, Value

TILES = ("BLOCK_SIZE_M", "BLOCK_SIZE_N", "BLOCK_SIZE_K", "GROUP_SIZE_M")
LAUNCH = {"num_warps": "NUM_WARPS", "num_stages": "NUM_STAGES"}
SPLITS = ("SPLIT_K", "NUM_KSPLIT")
"""tune_gemm's name and aiter's for the parts of K."""
AMD: Mapping[str, Value] = {"waves_per_eu": 0, "kpack": 1, "matrix_instr_nonkdim": 16, "cache_modifier": ""}
"""Further fields for AMD's compiler.

These values leave the choice to it. NVIDIA's compiler rejects all but the last.
"""
OF_COMPILER = {
    "waves_per_eu": "WAVES_PER_EU",
    "kpack": "KPACK",
    "matrix_instr_nonkdim": "MATRIX_INSTR_NONKDIM",
    "cache_modifier": "CACHE_MODIFIER",
}
"""Fields that kernels for AMD's GPUs have as constants."""
AMD_ONLY = ("matrix_instr_k", "schedule_hint", "instruction_sched_variant")
"""Further fields in some results of tune_gemm."""
NO_PIPELINE = {"num_stages": 0}
"""Values in older results of tune_gemm that correspond to 1 here."""
VARIANT = "VARIANT"
OWN: Mapping[str, tuple[str, ...]] = {
    VARIANT: ("plain", "persistent", "tma", "tma_tile", "roles", "turns", "pairs"),
    "POLICY": ("Square", "FullRow", "FullCol"),
}
"""Fields of this project's files only: the form of a kernel, and how TileLang kernels split a tile among warps."""


def is_whole(value: Any) -> bool:
    """Return whether a value is an integer, and no truth value."""
    return isinstance(value, int) and not isinstance(value, bool)


def unknown_fields(fields: Collection[Any]) -> list[Any]:
    """Return the names that no engine uses."""
    return [name for name in fields if name not in (*TILES, *LAUNCH, *SPLITS, *AMD, *AMD_ONLY, *OWN)]


def missing_fields(fields: Collection[Any]) -> list[str]:
    """Return the names that every config needs and this one lacks."""
    return [name for name in (*TILES, *LAUNCH) if name not in fields]


def from_fields(fields: Mapping[str, Any]) -> Config:
    """Return the config of an engine's entry; raises `OptionError` for values that are none."""
    whole = {**{name: name for name in TILES}, **LAUNCH, **dict.fromkeys(SPLITS, "SPLIT_K")}
    found: dict[str, Value] = {"SPLIT_K": 1, VARIANT: "plain"}
    for name, value in fields.items():
        if name in whole:
            if is_whole(value) and value == NO_PIPELINE.get(name):
                value = 1
            if not is_whole(value) or value < 1:
                raise OptionError(f"{name}={value!r} is not a whole number from 1")
            found[whole[name]] = value
        elif name in OWN:
            if value not in OWN[name]:
                raise OptionError(f"{name}={value!r} is not known", f"use {', '.join(OWN[name])}")
            found[name] = value
    return Config(found)


def suited(config: Config, kernel: Kernel) -> Config:
    """Return a config without the parameters that a kernel lacks."""
    return Config({name: value for name, value in config.items() if name in kernel.declared_values})


def to_fields(
    config: Mapping[str, Value],
    split: str | None = None,
    more: Mapping[str, Value] | None = None,
    own: bool = False,
) -> dict[str, Value]:
    """Return an engine's entry for a config; `split` is its name for the parts of K, if its kernel has them, and `more`
    what every entry has besides."""
    found: dict[str, Value] = {name: config[name] for name in TILES}
    if split and "SPLIT_K" in config:
        found[split] = config["SPLIT_K"]
    found |= {name: config[constant] for name, constant in LAUNCH.items()}
    found |= more or {}
    found |= {name: config[constant] for name, constant in OF_COMPILER.items() if constant in config}
    if own:
        found |= {name: config[name] for name in OWN if name in config}
    return found
