"""`kernelwright tune export`: a recorded search in another form."""

from __future__ import annotations

from pathlib import Path

import typer

from ..core import OptionError
from ..tuners.formats import read_recording, write_csv, write_t4


def run_export(source: Path, csv: Path | None, t4: Path | None, kernel: str | None = None) -> int:
    """The exit code of `tune export`."""
    targets = {path: write for path, write in ((csv, write_csv), (t4, write_t4)) if path is not None}
    if not targets or csv == t4:
        raise OptionError("say where to write: --csv FILE, --t4 FILE, or both with different files")
    if any(path.resolve() == source.resolve() for path in targets):
        raise OptionError(f"{source} would be overwritten; choose another file to write")
    recording = read_recording(source, kernel)
    for path, write in targets.items():
        write(path, recording)
        typer.echo(f"wrote {path}: {len(recording.results)} configs, best {recording.best[1]:.6g} ms")
    return 0
