"""vLLM's and SGLang's files for products with block scales: a config per M; the nearest M's is taken."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from ....core import OptionError
from ..fields import to_fields
from ..shapes import Shape
from .store import ANOTHER, BLOCKSCALE, Document, Entry, Store, Subject, read_json


class Vllm(Store):
    """`N=..,K=..,device_name=..,dtype=fp8_w8a8,block_shape=[128,128].json`: {"16": {...}, ...}."""

    id = "vllm"
    kernels = (BLOCKSCALE,)
    block_shape: ClassVar[str] = "[128,128]"

    def path(self, target: Path, subject: Subject, n: int, k: int) -> Path:
        """Return the file of a weight's extents."""
        device = subject.device.file_name
        name = f"N={n},K={k},device_name={device},dtype=fp8_w8a8,block_shape={self.block_shape}.json"
        return target / name

    def grouped(self, target: Path, subject: Subject, entries: Sequence[Entry]) -> dict[Path, list[Entry]]:
        """One file per N and K."""
        found: dict[Path, list[Entry]] = {}
        for entry in entries:
            found.setdefault(self.path(target, subject, entry.shape.n, entry.shape.k), []).append(entry)
        return found

    def parse(self, path: Path) -> Document:
        """All keys must be numbers of rows: the engine converts each."""
        found = read_json(path)
        if wrong := [key for key in found if not key.isdecimal()]:
            raise OptionError(f"{path} has the key {wrong[0]!r}, where {self.id} has numbers of rows", ANOTHER)
        return found

    def merge(self, document: Document, subject: Subject, entries: Sequence[Entry]) -> Document:
        """Each M has its own key."""
        return {**document, **{str(entry.shape.m): to_fields(entry.config) for entry in entries}}

    def text(self, document: Document) -> str:
        """In the order of M."""
        return json.dumps({key: document[key] for key in sorted(document, key=int)}, indent=4) + "\n"

    def find(self, target: Path, subject: Subject, shape: Shape) -> tuple[Mapping[str, Any], Path] | None:
        """The nearest M's."""
        path = self.path(target, subject, shape.n, shape.k)
        document = self.parse(path) if path.exists() else {}
        if not document:
            return None
        return document[min(document, key=lambda key: abs(int(key) - shape.m))], path


class Sglang(Vllm):
    """The same, with a space in the file's name."""

    id = "sglang"
    block_shape = "[128, 128]"
