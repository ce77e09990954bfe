"""The archive of this installation's runs. It outlives their results folders."""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from .json_lines import append_lines
from .retrieval import Gain
from .text import BAD_DATA

VERSION = 1
"""Version of the record format. Records of a later version are skipped."""


class _ArchivePart(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Experience(_ArchivePart):
    """A technique that was tried on a kernel, and its gain."""

    technique: str
    """The name of a rule, several names joined by ' + ', or a model's strategy."""
    gain: float = Field(ge=0, allow_inf_nan=False)
    """Speedup over the kernel that it was tried on; 0.0 if it failed."""
    cause: str = ""
    """Reason of the failure, in one line."""


class Improvement(_ArchivePart):
    """The kernel that a run started with, and the faster kernel that it verified."""

    before: str
    """Source text."""
    after: str
    gain: Gain
    category: str
    """The bottleneck in the turn with the largest gain."""
    techniques: tuple[str, ...] = ()
    """Strategies of the turns that made the kernel faster."""
    story: str = ""
    """Explanation by the proposer of why these helped."""


class Provenance(_ArchivePart):
    """Origin of a record."""

    folder: str
    """The results folder or the journal that the record was derived from."""
    imported: bool = False
    """Whether the user imported it: the run of someone else, or one older than signed journals."""
    project: str = ""
    """Working folder of the run."""
    user: str = ""
    """The user who ran or imported it."""
    host: str = ""


class ArchivedRun(_ArchivePart):
    """The results of one run: the kind of kernel, the device, and the gain of each technique."""

    version: int = VERSION
    run: str
    """Id of the run, sixteen hexadecimal digits. A later record with the same id replaces this one."""
    at: str = ""
    """End of the first trial, ISO 8601 in UTC."""
    problem: str
    reference: str = ""
    """Digest of the problem's source, sixteen hexadecimal digits."""
    sizes: str = ""
    """The `repr` of pairs of name and size."""
    device: str
    backend: str
    """Language and target: 'triton', 'tilelang_cpu'."""
    work: str = ""
    """'products' or 'streams'."""
    operators: tuple[str, ...] = ()
    """The reference's operators in the order they ran."""
    model: str = "rules"
    versions: dict[str, str] = Field(default_factory=dict)
    """Versions of Python, torch and the kernel's compiler, as in evaluations."""
    tried: tuple[Experience, ...] = ()
    improvement: Improvement | None = None
    """None if no kernel was both faster and verified."""
    origin: Provenance | None = None
    """None in records that are older than this field."""


class Archive:
    """A file of `ArchivedRun`s, one JSON object per line. Several processes may append at the same time.

    Broken lines and lines of a later version are skipped: the archive only advises, and no result depends on it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> list[ArchivedRun]:
        """Return the last record of each run, in the order of first records. Empty if there is no file."""
        try:
            lines = self.path.read_bytes().splitlines()
        except OSError:
            return []
        runs = (_parsed(line) for line in lines)
        return list({item.run: item for item in runs if item is not None}.values())

    def add(self, *runs: ArchivedRun) -> None:
        """Append runs and sync them to disk. Raises `ResultsError` if that fails."""
        advice = "make room, name another file in KERNELWRIGHT_ARCHIVE, or set `archive` off"
        append_lines(self.path, (run.model_dump_json(exclude_defaults=True) for run in runs), advice)


def _parsed(line: bytes) -> ArchivedRun | None:
    try:
        found = json.loads(line)
        known = isinstance(found, dict) and found.get("version", VERSION) <= VERSION
        return ArchivedRun.model_validate(found) if known else None
    except BAD_DATA:
        return None
