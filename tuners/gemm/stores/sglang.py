"""SGLang's files: vLLM's with other names; those for experts in a folder per version of Triton, two per weight."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ....core import Config
from ..shapes import Shape
from .store import MOE, ConfigEntry, ConfigKey, Document, FoundEntry
from .vllm import DEFAULT, Vllm

_FOLDER = re.compile(r"triton_(\d+)_(\d+)_(\d+)")


class Sglang(Vllm):
    """For experts `configs/triton_3_6_0/E=..,N=..,device_name=...json` and the same with `_down`, for the second
    product, below the folder that SGLANG_MOE_CONFIG_DIR names."""

    id = "sglang"
    block_shape = "[128, 128]"
    default_config = Config({**DEFAULT, "NUM_STAGES": 3})

    def folder(self, target: Path, subject: ConfigKey) -> Path:
        """Return the folder of a version of Triton, for experts."""
        if subject.kernel != MOE:
            return target
        return target / "configs" / f"triton_{subject.triton.replace('.', '_')}"

    def device(self, subject: ConfigKey) -> str:
        """Return the GPU's name as the driver gives it."""
        return subject.device.file_name

    def merge(self, document: Document, subject: ConfigKey, entries: Sequence[ConfigEntry]) -> Document:
        """Without the version, which its folder names: every key must be a number."""
        return super().merge(document, replace(subject, triton=""), entries)

    def grouped(
        self, target: Path, subject: ConfigKey, entries: Sequence[ConfigEntry]
    ) -> dict[Path, list[ConfigEntry]]:
        """For experts also the second product's file: it takes the first's height of a tile, and was measured so."""
        found = super().grouped(target, subject, entries)
        if subject.kernel != MOE:
            return found
        return {**found, **{path.with_name(f"{path.stem}_down.json"): group for path, group in found.items()}}

    def find(self, target: Path, subject: ConfigKey, shape: Shape) -> FoundEntry | None:
        """In the folder of this version of Triton, else of the newest other one that has the file."""
        found = super().find(target, subject, shape)
        if found is not None or subject.kernel != MOE:
            return found
        others = [
            (tuple(map(int, match.groups())), ".".join(match.groups()))
            for path in (target / "configs").glob("triton_*")
            if (match := _FOLDER.fullmatch(path.name))
        ]
        for _, version in sorted(others, reverse=True):
            if found := super().find(target, replace(subject, triton=version), shape):
                return found
        return None
