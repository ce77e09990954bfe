"""`export`: a recorded search in another form."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..tuners.formats import read_recording, write_csv, write_t4
from ..tuners.recording import Recording
from .options.tune import ExportOptions


@dataclass(frozen=True)
class ExportResult:
    """What was written."""

    recording: Recording
    files: tuple[Path, ...]


def run_export(options: ExportOptions) -> ExportResult:
    """Write the recording in the forms that are asked for."""
    recording = read_recording(options.journal, options.kernel)
    if options.csv is not None:
        write_csv(options.csv, recording)
    if options.t4 is not None:
        write_t4(options.t4, recording)
    return ExportResult(recording, tuple(path for path in (options.csv, options.t4) if path is not None))
