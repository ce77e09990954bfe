"""The archive: what every run of this installation learned, one run a line, kept when its results folder is deleted."""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from .json_lines import append_lines
from .retrieval import Gain

VERSION = 1
"""Of the records; those of a later one are passed over."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Experience(_Part):
    """A technique that was tried on a kernel, and what came of it."""

    technique: str
    """A rule's name, several joined by ' + ', or a model's strategy."""
    gain: float = Field(ge=0, allow_inf_nan=False)
    """Its speedup over the kernel that it was tried on; 0.0 when it failed."""
    cause: str = ""
    """Why it failed, in a line."""


class Improvement(_Part):
    """The kernel that a run began with, and the faster one that it verified."""

    before: str
    """Source text."""
    after: str
    gain: Gain
    category: str
    """The bottleneck of the turn that gained most."""
    techniques: tuple[str, ...] = ()
    """Strategies of the turns that improved the kernel."""
    story: str = ""
    """Why these helped, in the proposer's words."""


class Provenance(_Part):
    """Where a record comes from."""

    folder: str
    """The results folder, or the journal, that it was derived from."""
    imported: bool = False
    """Whether the user had it entered: another's run, or one of before journals were signed."""
    project: str = ""
    """The folder that the run was started in."""
    user: str = ""
    """Who ran it, or had it entered."""
    host: str = ""


class ArchivedRun(_Part):
    """What a run learned: on which kind of kernel, where, and what each technique was worth."""

    version: int = VERSION
    run: str
    """Sixteen hexadecimal digits: a later record with the same ones replaces this one."""
    at: str = ""
    """When its first trial ended, ISO 8601 in UTC."""
    problem: str
    reference: str = ""
    """Sixteen hexadecimal digits that stand for the problem's source."""
    sizes: str = ""
    """Pairs of name and size, as Python writes them."""
    device: str
    backend: str
    """Language and target: 'triton', 'tilelang_cpu'."""
    work: str = ""
    """'products' or 'streams'."""
    operators: tuple[str, ...] = ()
    """The reference's operators in the order they ran."""
    model: str = "rules"
    versions: dict[str, str] = Field(default_factory=dict)
    """Of Python, torch and the kernel's compiler, as evaluations record them."""
    tried: tuple[Experience, ...] = ()
    improvement: Improvement | None = None
    """None when nothing became faster, or it was not verified."""
    origin: Provenance | None = None
    """None in records of before there was one."""


class Archive:
    """A file of `ArchivedRun`s, one JSON object a line, that several processes may extend at once.

    What is broken, or of a later version, is passed over: the archive advises, no result depends on it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> list[ArchivedRun]:
        """Return the runs in the order of their first records; of each the last record. Empty without a file."""
        try:
            lines = self.path.read_bytes().splitlines()
        except OSError:
            return []
        runs = (_parsed(line) for line in lines)
        return list({item.run: item for item in runs if item is not None}.values())

    def add(self, *runs: ArchivedRun) -> None:
        """Append runs, on disk when this returns; raises `ResultsError` where that is impossible."""
        advice = "make room, name another file in KERNELWRIGHT_ARCHIVE, or set `archive` off"
        append_lines(self.path, (run.model_dump_json(exclude_defaults=True) for run in runs), advice)


def _parsed(line: bytes) -> ArchivedRun | None:
    try:
        found = json.loads(line)
        known = isinstance(found, dict) and found.get("version", VERSION) <= VERSION
        return ArchivedRun.model_validate(found) if known else None
    except (ValidationError, ValueError, TypeError, RecursionError):
        return None
