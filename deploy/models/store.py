"""The store of results for regions: one readable file per entry, named by its region and its own digest.

Several folders are searched in order; the first one is written to. Entries are code, so a file that anyone may write
or add is not used, nor is one whose text has another digest than its name.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from ...core import ResultsError
from ...core.files import own_folder, read_text, write_whole
from ...core.text import data_of
from .reference import architecture, reference_text, region_key

FOLDERS = "KERNELWRIGHT_STORE"
"""Variable with the store's folders, separated as those of PATH are."""
LEAST_GAIN = 1.02
"""How much faster than Inductor's code of the same region an entry must be."""
_NAME = re.compile(r"(?P<key>[0-9a-f]{32})-(?P<digest>[0-9a-f]{64})\.yaml")
_ANYONE = 0o002
"""The permission to write for all users."""
_TOP = "# An entry of kernelwright's store: a region of a model, and the kernels that compute it.\n"
_ModuleName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_]\w*$")]


class StoredRegion(BaseModel):
    """The result for a region."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal[1] = 1
    device: str
    """The architecture, as `architecture` has it."""
    versions: dict[str, str]
    """Versions of torch and the kernel's language at the measurement."""
    compile_ms: float = Field(gt=0)
    """Median time of Inductor's code."""
    latency_ms: float = Field(gt=0)
    """Median time of the kernels, measured interleaved with it."""
    gain_interval: tuple[float, float] | None = None
    """Interval of the gain, from the 95 % intervals of both medians."""
    table: dict[str, Any]
    """table.json of the deployed operator."""
    problem: str
    """The region's reference and inputs."""
    kernels: dict[_ModuleName, str]
    """Files of the kernels, by module name."""

    @property
    def gain(self) -> float:
        """Inductor's time over the kernels'."""
        return self.compile_ms / self.latency_ms

    @cached_property
    def key(self) -> str:
        """The region's key. Raises `ProblemError` for a problem that is not a region's."""
        return region_key(reference_text(self.problem), self.device)

    def stale(self) -> str:
        """Return the version that differs here: 'torch 2.12.0, here 2.13.0'; '' if none does."""
        for name, version in self.versions.items():
            here = version_of(name)
            if here != version:
                return f"{name} {version}, here {here or 'none'}"
        return ""

    def to_text(self) -> str:
        """Return the entry's file."""
        import yaml

        class _Readable(yaml.SafeDumper):  # type: ignore[misc]
            pass

        def text(dumper: Any, value: str) -> Any:
            return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)

        _Readable.add_representer(str, text)
        document = self.model_dump(mode="json")
        return _TOP + str(yaml.dump(document, Dumper=_Readable, sort_keys=False, allow_unicode=True, width=120))


@dataclass(frozen=True)
class StoreFile:
    """A file of a store, read and examined."""

    path: Path
    entry: StoredRegion | None
    problem: str
    """Why it is not used here; '' if it is."""
    damaged: bool = False
    """Whether its content is at fault, not the surroundings."""

    @property
    def name(self) -> str:
        """'<key>-<digest>', the same in every folder."""
        return self.path.stem

    @property
    def key(self) -> str:
        """The region's key."""
        return self.name.partition("-")[0]


class RegionStore:
    """Folders of entries, as they were when they were first listed."""

    def __init__(self, folders: Sequence[Path], report: Callable[[str], None] = lambda text: None) -> None:
        self.folders = tuple(folders)
        self._report = report
        self._read: dict[Path, StoreFile] = {}

    @cached_property
    def paths(self) -> tuple[Path, ...]:
        """The entries' files, by folder and name; a folder that is missing is empty."""
        found: list[Path] = []
        for folder in self.folders:
            try:
                names = sorted(item.name for item in os.scandir(folder) if _NAME.fullmatch(item.name))
            except FileNotFoundError:
                continue
            except OSError as error:
                self._report(f"the store {folder} cannot be read: {error.strerror}; it is left out")
                continue
            found += [folder / name for name in names]
        return tuple(found)

    @property
    def digest(self) -> str:
        """Digest of the entries' names, which have those of their contents."""
        return hashlib.sha256("\n".join(path.name for path in self.paths).encode()).hexdigest()[:16]

    def files(self) -> Iterator[StoreFile]:
        """Yield all entries, those that cannot be used too."""
        yield from map(self._file, self.paths)

    def find(self, key: str) -> StoreFile | None:
        """Return the entry for a region, from the first folder that has one; of several, the one with the largest gain.

        Unusable entries are reported.
        """
        for folder in self.folders:
            paths = [path for path in self.paths if path.parent == folder and path.name.startswith(f"{key}-")]
            usable: list[tuple[float, str, StoreFile]] = []
            for file in map(self._file, paths):
                if file.entry is None or file.problem:
                    self._report(f"{file.path} is not used: {file.problem}")
                else:
                    usable.append((-file.entry.gain, file.name, file))
            if usable:
                return min(usable, key=lambda item: item[:2])[2]
        return None

    def named(self, name: str) -> StoreFile | None:
        """Return the entry whose name this is, or begins so, or None.

        Raises `ResultsError` if several different names begin this way.
        """
        found = {path.name: path for path in reversed(self.paths) if path.name.startswith(name)}
        if len(found) > 1:
            raise ResultsError(f"{len(found)} entries of the store begin with {name}; give more digits")
        return self._file(next(iter(found.values()))) if found else None

    def add(self, entry: StoredRegion) -> Path:
        """Write an entry to the first folder. Raises `ResultsError` if that fails."""
        text = entry.to_text()
        path = self.folders[0] / f"{entry.key}-{hashlib.sha256(text.encode()).hexdigest()}.yaml"
        write_whole(path, text, f"free space there, or set {FOLDERS} to another folder")
        vars(self).pop("paths", None)
        return path

    def _file(self, path: Path) -> StoreFile:
        if path not in self._read:
            self._read[path] = _examined(path)
        return self._read[path]


def default_folders() -> tuple[Path, ...]:
    """Return the folders that KERNELWRIGHT_STORE names, or the user's own."""
    named = os.environ.get(FOLDERS, "")
    return tuple(Path(item) for item in named.split(os.pathsep) if item) or (own_folder() / "store",)


def version_of(name: str) -> str:
    """Return the installed version of torch, triton or tilelang; '' without one."""
    if name == "torch":
        import torch

        return str(torch.__version__)
    try:
        return importlib.metadata.version(name)
    except (importlib.metadata.PackageNotFoundError, ValueError):  # an entry may name anything
        return ""


def _examined(path: Path) -> StoreFile:
    """Read a file, and say what stands against it."""
    import yaml

    named = _NAME.fullmatch(path.name)
    assert named is not None, path
    try:
        with data_of(path, ResultsError):
            text = read_text(path)
            if hashlib.sha256(text.encode()).hexdigest() != named["digest"]:
                raise ValueError("its content is not what its name says, so it is damaged or forged; remove it")
            loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
            entry = StoredRegion.model_validate(yaml.load(text, Loader=loader))
            if entry.key != named["key"]:
                raise ValueError("it is for another region than its name says; remove it")
            writable = next((item for item in (path, path.parent) if item.stat().st_mode & _ANYONE), None)
    except ResultsError as error:
        return StoreFile(path, None, str(error), damaged=True)
    if writable is not None:
        what = "it" if writable == path else "its folder"
        return StoreFile(path, entry, f"anyone may write {what}; chmod o-w {writable}")
    if entry.gain_interval is None:
        return StoreFile(path, entry, "it states no interval of its gain; optimize the region again")
    if stale := entry.stale():
        return StoreFile(path, entry, f"it was measured with {stale}; optimize the region again")
    if entry.device != (here := _here(entry.device)):
        return StoreFile(path, entry, f"it is for {entry.device}, here is {here}")
    return StoreFile(path, entry, "")


def _here(device: str) -> str:
    import torch

    kind = device.partition(" ")[0]
    return architecture(kind) if kind == "cpu" or torch.cuda.is_available() else "no GPU"


@lru_cache(maxsize=1)
def _opened(folders: tuple[Path, ...]) -> RegionStore:
    return RegionStore(folders, report=lambda text: warnings.warn(f"kernelwright: {text}", stacklevel=2))


def opened() -> RegionStore:
    """Return the store of this process, listed once: later entries are used from the next start on."""
    return _opened(default_folders())
