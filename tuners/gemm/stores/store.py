"""The base of all engines' files: they are merged under a lock, and stamped with versions."""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from ....core import Config, OptionError, Value
from ....core.file_locks import locked
from ....core.files import read_text, write_whole
from ....core.text import data_of
from ..device import Device
from ..shapes import Shape
from .stamp import FileStamp, Versions, read_stamp, write_stamp

BLOCKSCALE = "a8w8_blockscale"
GEMM = "gemm"
MOE = "moe"
TRITON = "triton"
ELSEWHERE = "choose another `output`"
ANOTHER = "choose another `output`, or move it away"


@dataclass(frozen=True)
class ConfigKey:
    """The key of a file's entries."""

    kernel: str
    """'gemm', 'a8w8_blockscale', 'mxfp8', 'nvfp4' or 'moe'."""
    dtype: str
    """Dtype or format of the operands; for experts, of the weights."""
    device: Device
    layout: str = "TN"
    backend: str = TRITON
    """The language of the kernel."""
    triton: str = ""
    """Version of Triton, if files or folders are named after it."""


@dataclass(frozen=True)
class ConfigEntry:
    """The choice for a shape."""

    shape: Shape
    config: Config
    time_ms: float | None = None
    times: Mapping[Config, float] = field(default_factory=dict)
    """Times of the measured configs in milliseconds, if one entry must serve several shapes."""


Document = dict[str, Any]
"""The parsed content of a file: entries by key, as the engine writes them."""


class FoundEntry(NamedTuple):
    """The entry that an engine uses for a shape."""

    fields: Mapping[str, Any]
    path: Path
    key: str
    """Its key in the file."""


class EngineFormat(ABC):
    """Reads, merges, writes and looks up the files of one engine."""

    id: ClassVar[str]
    kernels: ClassVar[tuple[str, ...]]
    """The products whose configs it holds."""
    split: ClassVar[str | None] = None
    """Name of the field for the parts of K; None if the engine's kernel has none."""
    variants: ClassVar[bool] = False
    """Whether the form of the kernel, and TileLang's kernels, can be named."""

    @abstractmethod
    def grouped(
        self, target: Path, subject: ConfigKey, entries: Sequence[ConfigEntry]
    ) -> dict[Path, list[ConfigEntry]]:
        """Return which entries go into which file."""

    @abstractmethod
    def parse(self, path: Path) -> Document:
        """Return the content of a file; raises `OptionError` for one of another schema."""

    @abstractmethod
    def merge(self, document: Document, subject: ConfigKey, entries: Sequence[ConfigEntry]) -> Document:
        """Return the content with these entries. Entries of other shapes do not change."""

    @abstractmethod
    def text(self, document: Document) -> str:
        """Return the text of the file for the content."""

    @abstractmethod
    def find(self, target: Path, subject: ConfigKey, shape: Shape) -> FoundEntry | None:
        """Return the entry that the engine uses for a shape; None if it uses its default."""

    def default(self, subject: ConfigKey) -> Config | None:
        """Return the engine's config for a shape without an entry; None if unknown."""
        return None

    def stated_versions(self, document: Document) -> Versions:
        """Return the versions that a file itself states for its entries."""
        return {}

    def also(self, target: Path, subject: ConfigKey, documents: Mapping[Path, Document]) -> dict[Path, Document]:
        """Return further files that follow from all of these."""
        return {}

    def fixed(self, subject: ConfigKey) -> dict[str, list[Value]]:
        """Return the parameters that the engine's kernel does not have, or not freely, with their values."""
        found: dict[str, list[Value]] = {}
        if self.split is None:
            found["SPLIT_K"] = [1]
        if not self.variants:
            found["VARIANT"] = ["plain"]
        return found

    def check(self, subject: ConfigKey) -> None:
        """Raise `OptionError` if the engine has no such files."""
        if subject.kernel not in self.kernels:
            raise OptionError(
                f"`format` {self.id} holds no configs of {subject.kernel}", f"it is for {' and '.join(self.kernels)}"
            )
        if subject.backend != TRITON and not self.variants:
            raise OptionError(
                f"`format` {self.id} is for Triton's kernels", "use `format` kernelwright, or no `backend`"
            )

    def prepare(self, target: Path, subject: ConfigKey, shapes: Sequence[Shape]) -> None:
        """Raise `OptionError` if these shapes' files could not be written: now, not after hours."""
        for path in self.grouped(target, subject, [ConfigEntry(item, Config()) for item in shapes]):
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise OptionError(
                    f"cannot write to {path.parent}: {error.strerror}", "choose another `output`"
                ) from None
            if not os.access(path.parent, os.W_OK):
                raise OptionError(f"cannot write to {path.parent}: no permission", "choose another `output`")
            if path.exists():
                self.parse(path)

    def save(
        self, target: Path, subject: ConfigKey, entries: Sequence[ConfigEntry], versions: Mapping[str, str]
    ) -> list[Path]:
        """Merge entries into the files, under a lock that all runs share; return the files.

        Nothing is written if one of the files cannot be read.
        """
        grouped = self.grouped(target, subject, entries)
        folder = next(iter(grouped)).parent
        with locked(folder / ".kernelwright.lock", ELSEWHERE):
            before = {path: self.parse(path) if path.exists() else {} for path in grouped}
            documents = {path: self.merge(before[path], subject, group) for path, group in grouped.items()}
            stamp = read_stamp(folder)
            for path, group in grouped.items():
                known = stamp.get(path.name) or FileStamp(self.stated_versions(before[path]))
                measured = self.merge({}, subject, group)
                kept = (key for key, entry in documents[path].items() if entry != measured.get(key))
                stamp[path.name] = FileStamp(
                    versions, {key: known.of(key) for key in kept if known.of(key) != versions}
                )
            further = self.also(target, subject, documents)
            for path, document in {**documents, **further}.items():
                write_whole(path, self.text(document))
            write_stamp(folder, stamp | {path.name: FileStamp(versions) for path in further})
        return [*documents, *further]


def by_file(entries: Sequence[ConfigEntry], path_of: Callable[[Shape], Path]) -> dict[Path, list[ConfigEntry]]:
    """Return the entries of each file."""
    found: dict[Path, list[ConfigEntry]] = {}
    for entry in entries:
        found.setdefault(path_of(entry.shape), []).append(entry)
    return found


def read_json(path: Path, plain: Collection[str] = ()) -> Document:
    """Return a JSON object of objects, `plain` keys excepted; raises `OptionError` for anything else."""
    with data_of(path, OptionError, ANOTHER, "is not valid JSON"):
        found = json.loads(read_text(path))
    if not isinstance(found, dict) or not all(isinstance(entry, dict) or key in plain for key, entry in found.items()):
        raise OptionError(f"{path} is no object of configs by size", ANOTHER)
    return found
