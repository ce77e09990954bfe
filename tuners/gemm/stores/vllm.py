"""vLLM's files, for products with block scales and for experts: a config per M; the nearest M's is taken."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from ....core import Config, OptionError, Value
from ..fields import missing_fields, to_fields
from ..shapes import Shape
from .stamp import Versions
from .store import (
    ANOTHER,
    BLOCKSCALE,
    MOE,
    TRITON,
    ConfigEntry,
    ConfigKey,
    Document,
    EngineFormat,
    FoundEntry,
    by_file,
    read_json,
)

_DEFAULT: Mapping[str, Value] = {
    **{"BLOCK_SIZE_M": 64, "BLOCK_SIZE_N": 128, "BLOCK_SIZE_K": 128, "GROUP_SIZE_M": 32},
    **{"NUM_WARPS": 4, "NUM_STAGES": 2, "SPLIT_K": 1, "VARIANT": "plain"},
}
DEFAULT = Config(_DEFAULT)
"""vLLM's config for a product with block scales without a file."""
VERSION = "triton_version"
"""A key of vLLM's files for experts, which it drops when it reads one."""


class Vllm(EngineFormat):
    """`{"16": {...}, ...}` in `N=..,K=..,device_name=..,dtype=fp8_w8a8,block_shape=[128,128].json`; for experts
    E and N, and no dtype where it is fp16 or bf16."""

    id = "vllm"
    kernels = (BLOCKSCALE, MOE)
    block_shape: ClassVar[str] = "[128,128]"
    default_config: ClassVar[Config] = DEFAULT
    """The engine's config for a product with block scales that has no file."""

    def folder(self, target: Path, subject: ConfigKey) -> Path:
        """Return the folder of the files."""
        return target

    def name(self, subject: ConfigKey, shape: Shape) -> str:
        """Return the file of a weight."""
        weight = f"E={shape.experts},N={shape.n}" if subject.kernel == MOE else f"N={shape.n},K={shape.k}"
        fp8 = f",dtype=fp8_w8a8,block_shape={self.block_shape}" if subject.dtype.startswith("float8") else ""
        return f"{weight},device_name={self.device(subject)}{fp8}.json"

    def device(self, subject: ConfigKey) -> str:
        """Return its name of the GPU: for experts, one for the whole family of the H200."""
        name = subject.device.file_name
        return "NVIDIA_H200" if subject.kernel == MOE and "H200" in name.split("_") else name

    def grouped(
        self, target: Path, subject: ConfigKey, entries: Sequence[ConfigEntry]
    ) -> dict[Path, list[ConfigEntry]]:
        """One file per weight."""
        return by_file(entries, lambda shape: self.folder(target, subject) / self.name(subject, shape))

    def parse(self, path: Path) -> Document:
        """All keys but the version must be numbers of rows: the engine converts each."""
        found = read_json(path, plain=(VERSION,))
        for key, value in found.items():
            if key == VERSION:
                continue
            if not key.isdecimal():
                raise OptionError(f"{path} has the key {key!r}, where {self.id} has numbers of rows", ANOTHER)
            if lacking := missing_fields(value):
                raise OptionError(f"{path}: {key} is half a config, without {', '.join(lacking)}", ANOTHER)
        return found

    def merge(self, document: Document, subject: ConfigKey, entries: Sequence[ConfigEntry]) -> Document:
        """Each M has its own key."""
        version = {VERSION: subject.triton} if subject.kernel == MOE and subject.triton else {}
        return {**document, **version, **{str(entry.shape.m): to_fields(entry.config) for entry in entries}}

    def text(self, document: Document) -> str:
        """The version first, then in the order of M."""
        ordered = [*(key for key in document if key == VERSION), *sorted(_rows(document), key=int)]
        return json.dumps({key: document[key] for key in ordered}, indent=4) + "\n"

    def find(self, target: Path, subject: ConfigKey, shape: Shape) -> FoundEntry | None:
        """The nearest M's."""
        path = self.folder(target, subject) / self.name(subject, shape)
        document = self.parse(path) if path.exists() else {}
        rows = _rows(document)
        if not rows:
            return None
        nearest = min(rows, key=lambda key: abs(int(key) - shape.m))
        return FoundEntry(document[nearest], path, nearest)

    def default(self, subject: ConfigKey) -> Config | None:
        """For products with block scales; for experts it depends on the version."""
        return self.default_config if subject.kernel == BLOCKSCALE else None

    def stated_versions(self, document: Document) -> Versions:
        """For experts that of Triton."""
        return {TRITON: document[VERSION]} if isinstance(document.get(VERSION), str) else {}


def _rows(document: Document) -> list[str]:
    return [key for key in document if key != VERSION]
