"""tune_gemm's YAML: a line per shape, which is valid input again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ....core import OptionError
from ..fields import from_fields, to_fields
from ..shapes import Shape
from ..sizes import read_sizes
from .store import ANOTHER, GEMM, ConfigEntry, ConfigKey, Document, EngineFormat, FoundEntry

FILE = "tuning_results.yaml"
TIMED = "# TFLOPS:"
"""Text after a config with a known speed."""


class TuneGemm(EngineFormat):
    """`- {'M': .., 'N': .., 'K': .., 'rowMajorA': 'T', ..., 'num_stages': 3} # TFLOPS: .. time(us): ..`."""

    id = "tune-gemm"
    kernels = (GEMM,)
    split = "SPLIT_K"

    def path(self, target: Path) -> Path:
        """Return the file: the target, or a file in it if it is a folder. Raises `OptionError` if it is not YAML."""
        if target.suffix in (".yaml", ".yml") and not target.is_dir():
            return target
        if target.suffix and not target.is_dir():
            raise OptionError(
                f"`output` {target} is not a YAML file", f"name one, such as {target.stem}.yaml, or a folder"
            )
        return target / FILE

    def grouped(
        self, target: Path, subject: ConfigKey, entries: Sequence[ConfigEntry]
    ) -> dict[Path, list[ConfigEntry]]:
        """One file for all."""
        return {self.path(target): list(entries)}

    def parse(self, path: Path) -> Document:
        """The lines by shape, with their comments; each must be a size with a whole config."""
        sizes = read_sizes(path)
        if sizes.refused:
            raise OptionError(sizes.refused[0], ANOTHER)
        lines = [line for line in path.read_text().splitlines() if line.lstrip().startswith("- ")]
        if len(lines) != len(sizes.shapes) or len(sizes.configs) != len(lines):
            raise OptionError(f"{path} is not a tuning result: a line per size, each with a config", ANOTHER)
        found: Document = {}
        for line in lines:
            entry = _parse_line(line, path)
            found[_key(entry)] = {"line": line, "config": sizes.configs[entry], "shape": entry}
        return found

    def merge(self, document: Document, subject: ConfigKey, entries: Sequence[ConfigEntry]) -> Document:
        """Write a line per shape and layout; an entry that was only checked does not replace one with a time."""
        merged = dict(document)
        for entry in entries:
            if entry.time_ms is None and TIMED in merged.get(_key(entry.shape), {}).get("line", ""):
                continue
            merged[_key(entry.shape)] = {"line": _line(entry), "config": entry.config, "shape": entry.shape}
        return merged

    def text(self, document: Document) -> str:
        """The lines."""
        return "".join(f"{item['line']}\n" for item in document.values())

    def find(self, target: Path, subject: ConfigKey, shape: Shape) -> FoundEntry | None:
        """Only the shape's own."""
        path = self.path(target)
        found = self.parse(path).get(_key(shape)) if path.exists() else None
        return FoundEntry(to_fields(found["config"], split=self.split), path, _key(shape)) if found else None


def _key(shape: Shape) -> str:
    return f"{shape.m} {shape.n} {shape.k} {shape.layout}"


def _line(entry: ConfigEntry) -> str:
    shape = entry.shape
    size = {"M": shape.m, "N": shape.n, "K": shape.k, "rowMajorA": shape.layout[0], "rowMajorB": shape.layout[1]}
    line = f"- { ({**size, **to_fields(entry.config, split='SPLIT_K')})!r}"
    if entry.time_ms is None:
        return f"{line} # not measured"
    return f"{line} {TIMED} {shape.flops / entry.time_ms / 1e9:.2f} time(us): {entry.time_ms * 1e3:.2f}"


def _parse_line(line: str, path: Path) -> Shape:
    import yaml

    found = yaml.safe_load(line)[0]
    _ = from_fields({name: value for name, value in found.items() if name not in ("M", "N", "K")})
    layout = f"{found.get('rowMajorA', 'T')}{found.get('rowMajorB', 'N')}"
    if not all(isinstance(found[name], int) for name in ("M", "N", "K")):
        raise OptionError(f"{path} is not a tuning result: {line.strip()}", ANOTHER)
    return Shape(n=found["N"], k=found["K"], m=found["M"], layout=layout)
