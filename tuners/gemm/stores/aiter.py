"""aiter's files: a file per N and K and a default one, with a config per category of M."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from ....core import OptionError, Value
from ..cover import best_for_all
from ..device import BLOCK_FORMATS
from ..fields import AMD, missing_fields, to_fields
from ..shapes import Shape
from .store import (
    ANOTHER,
    BLOCKSCALE,
    GEMM,
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

BOUNDS = (1, *(2**power for power in range(2, 14)))
"""The bounds of M that aiter looks for."""
ANY = "any"
LEGACY = ("small", "medium_M32", "medium_M64", "medium_M128", "large", "xlarge")


class Aiter(EngineFormat):
    """`{arch}-GEMM-{TAG}-N=..-K=...json`, keys M_LEQ_x, M_GEQ_x and any."""

    id = "aiter"
    kernels: ClassVar[tuple[str, ...]] = (GEMM, BLOCKSCALE)
    split = "NUM_KSPLIT"
    more: ClassVar[Mapping[str, Value]] = {"cache_modifier": ""}
    """Further fields of every entry."""

    def check(self, subject: ConfigKey) -> None:
        """Check the base's conditions, and that weights are (N, K): aiter's kernels take no others."""
        super().check(subject)
        if subject.layout != "TN":
            raise OptionError(f"`layout` {subject.layout}: aiter's kernels take weights as (N, K)", "use `layout` TN")

    def stem(self, subject: ConfigKey) -> str:
        """Return the beginning of its files' names."""
        tag = {BLOCKSCALE: "A8W8_BLOCKSCALE"}.get(subject.kernel)
        tag = tag or ("A8W8" if subject.dtype.startswith("float8") else "A16W16")
        return f"{subject.device.architecture}-GEMM-{tag}"

    def fixed(self, subject: ConfigKey) -> dict[str, list[Value]]:
        """Return parameters that have one value: the kernel processes a whole block of scales per step."""
        whole: dict[str, list[Value]] = {"BLOCK_SIZE_K": [128]} if subject.kernel == BLOCKSCALE else {}
        return {**super().fixed(subject), **whole}

    def path(self, target: Path, subject: ConfigKey, shape: Shape) -> Path:
        """Return the file of a weight."""
        experts = f"-E={shape.experts}-TOP_K={shape.top_k}" if shape.experts else ""
        return target / f"{self.stem(subject)}-N={shape.n}-K={shape.k}{experts}.json"

    def grouped(
        self, target: Path, subject: ConfigKey, entries: Sequence[ConfigEntry]
    ) -> dict[Path, list[ConfigEntry]]:
        """One file per weight."""
        return by_file(entries, lambda shape: self.path(target, subject, shape))

    def key(self, m: int) -> str:
        """Return the category of M."""
        bound = next((bound for bound in BOUNDS if m <= bound), None)
        return f"M_GEQ_{BOUNDS[-1]}" if bound is None else f"M_LEQ_{bound}"

    def rank(self, key: str) -> int:
        """Return where a category stands among all; -1 for no category of M. Raises `OptionError` for unknown keys."""
        kind, _, bound = key.rpartition("_")
        if key == ANY:
            return -1
        if kind not in ("M_LEQ", "M_GEQ") or not bound.isdecimal():
            raise OptionError(f"the key {key!r} is none of {self.id}'s")
        return 2 * int(bound) + (kind == "M_GEQ")

    def keys(self, m: int) -> list[str]:
        """Return the categories that serve an M, the first that is there first."""
        upper = [f"M_LEQ_{bound}" for bound in BOUNDS if m <= bound]
        return [*upper, *(f"M_GEQ_{bound}" for bound in reversed(BOUNDS) if m >= bound), ANY]

    def parse(self, path: Path) -> Document:
        """Every key is a category, every value a whole config."""
        found = read_json(path)
        for key, value in found.items():
            try:
                self.rank(key)
            except OptionError as error:
                raise OptionError(f"{path}: {error}", ANOTHER) from None
            if lacking := missing_fields(value):
                raise OptionError(f"{path}: {key} is half a config, without {', '.join(lacking)}", ANOTHER)
        return found

    def merge(self, document: Document, subject: ConfigKey, entries: Sequence[ConfigEntry]) -> Document:
        """A category gets the config that loses least over its shapes; `any` follows the largest category."""
        categories: dict[str, list[ConfigEntry]] = {}
        for entry in entries:
            categories.setdefault(self.key(entry.shape.m), []).append(entry)
        merged = dict(document)
        for key, group in categories.items():
            merged[key] = to_fields(_best(group), split=self.split, more=self.more, own=self.variants)
        largest = max((key for key in merged if key != ANY), key=self.rank)
        if ANY not in merged or largest in categories:
            merged[ANY] = merged[largest]
        return merged

    def also(self, target: Path, subject: ConfigKey, documents: Mapping[Path, Document]) -> dict[Path, Document]:
        """The default file: the most common config of each category over all N and K in the folder."""
        path = target / f"{self.stem(subject)}.json"
        others = [item for item in sorted(target.glob(f"{self.stem(subject)}-N=*-K=*.json")) if item not in documents]
        everything = [*documents.values(), *map(self.parse, others)]
        found = self.parse(path) if path.exists() else {}
        for key in dict.fromkeys(key for document in everything for key in document):
            texts = Counter(json.dumps(document[key]) for document in everything if key in document)
            found[key] = json.loads(texts.most_common(1)[0][0])
        return {path: found}

    def text(self, document: Document) -> str:
        """In the order of M."""
        ordered = sorted((key for key in document if key != ANY), key=self.rank)
        return json.dumps({key: document[key] for key in [*ordered, *([ANY] if ANY in document else [])]}, indent=4)

    def find(self, target: Path, subject: ConfigKey, shape: Shape) -> FoundEntry | None:
        """In the file of N and K, else in the default one: the smallest bound that holds M, then `any`."""
        for path in (self.path(target, subject, shape), target / f"{self.stem(subject)}.json"):
            if path.exists():
                document = self.parse(path)
                found = (FoundEntry(document[key], path, key) for key in self.keys(shape.m) if key in document)
                return next(found, None)
        return None


class AiterLegacy(Aiter):
    """The same with the categories of the tuning guide: small, medium_M32 ..., large, xlarge, any."""

    id = "aiter-legacy"
    more: ClassVar[Mapping[str, Value]] = AMD

    def key(self, m: int) -> str:
        """Return the category of M."""
        if m < 32:
            return "small"
        if m <= 128:
            return f"medium_M{1 << (m - 1).bit_length()}"
        return "large" if m <= 256 else "xlarge"

    def rank(self, key: str) -> int:
        """Return where a category stands among all; -1 for no category of M. Raises `OptionError` for unknown keys."""
        if key == ANY:
            return -1
        if key not in LEGACY:
            raise OptionError(f"the key {key!r} is none of {self.id}'s")
        return LEGACY.index(key)

    def keys(self, m: int) -> list[str]:
        """Return the categories that serve an M, the first that is there first."""
        return [self.key(m), ANY]


class KernelwrightFormat(Aiter):
    """aiter's keys, with this project's forms of the kernels; read by `load_config`."""

    id = "kernelwright"
    kernels = (GEMM, BLOCKSCALE, MOE, *BLOCK_FORMATS)
    more: ClassVar[Mapping[str, Value]] = {}
    split = "SPLIT_K"
    variants = True

    def check(self, subject: ConfigKey) -> None:
        """All layouts have files of their own."""
        EngineFormat.check(self, subject)

    def fixed(self, subject: ConfigKey) -> dict[str, list[Value]]:
        """Check nothing, since its configs are those of the kernels."""
        return EngineFormat.fixed(self, subject)

    def stem(self, subject: ConfigKey) -> str:
        """Return the beginning of its files' names."""
        tag = subject.kernel.upper()
        if subject.kernel not in (BLOCKSCALE, *BLOCK_FORMATS):
            tag = f"{tag}_{subject.dtype.upper()}"
        if subject.kernel == GEMM:
            tag = f"{tag}_{subject.layout}"
        if subject.backend != TRITON:
            tag = f"{tag}_{subject.backend.upper()}"
        return f"{subject.device.file_name}-GEMM-{tag}"


def _best(group: Sequence[ConfigEntry]) -> Mapping[str, Any]:
    """Return the config of a category: with times the one that loses least, else the largest shape's."""
    largest = max(group, key=lambda entry: entry.shape.m)
    times = {entry.shape: {entry.config: entry.time_ms or 0.0, **entry.times} for entry in group}
    if len(group) == 1 or not all(entry.time_ms for entry in group):
        return largest.config
    return best_for_all(times) or largest.config
