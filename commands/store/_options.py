"""Options and rows that the commands of the store share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...core import OptionError
from ...core.text import digits
from ...deploy.models.store import RegionStore, StoreFile, default_folders
from ...runtime.options.option import Options as BaseOptions
from ...runtime.options.option import described, option


@dataclass(frozen=True, kw_only=True)
class StoreOptions(BaseOptions):
    """Selects folders of the store."""

    folder: tuple[Path, ...] = option(
        (),
        "A folder of the store; may be repeated. By default those of KERNELWRIGHT_STORE, or the user's own.",
        metavar="DIR",
        trusted=True,
    )

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders, in the order in which they are searched."""
        return self.folder or default_folders()


@dataclass(frozen=True, kw_only=True)
class EntriesOptions(StoreOptions):
    """Selects entries of the store."""

    entries: tuple[str, ...] = field(
        default=(),
        kw_only=False,
        metadata=described("Names of entries, or their first digits; all by default.", metavar="ENTRY..."),
    )


def entries_named(folders: Sequence[Path], names: Sequence[str]) -> list[StoreFile]:
    """Return the entries whose names begin with `names`, or all. Raises `OptionError` for a name without an entry."""
    store = RegionStore(folders)
    if not names:
        return list(store.files())
    found = []
    for name in names:
        file = store.named(name.removesuffix(".yaml"))
        if file is None:
            raise OptionError(f"no entry of the store begins with {name!r}", "`kernelwright store list` shows them")
        found.append(file)
    return found


def row_of(file: StoreFile) -> dict[str, Any]:
    """Return the row of an entry."""
    entry = file.entry
    if entry is None:
        return {"entry": file.name, "folder": str(file.path.parent), "problem": file.problem}
    return {
        "entry": file.name,
        "folder": str(file.path.parent),
        "device": entry.device,
        "versions": entry.versions,
        "latency_ms": entry.latency_ms,
        "compile_ms": entry.compile_ms,
        "gain": round(entry.gain, 3),
        "gain_interval": entry.gain_interval,
        "problem": file.problem,
    }


def line_of(row: dict[str, Any]) -> str:
    """Return an entry as a line: '5e3919fd9f47-d4450e19 1.5x (0.2 ms, Inductor 0.3 ms), cpu x86_64 AVX512'."""
    key, _, digest = row["entry"].partition("-")
    name = f"{key[:12]}...-{digest[:8]}" if "gain" not in row else f"{key}-{digest[:8]}"
    if "gain" not in row:
        return f"{name}: {row['problem']}"
    interval = " [{:.3g}, {:.3g}]".format(*row["gain_interval"]) if row["gain_interval"] else ""
    figures = f"{row['gain']:.3g}x{interval}"
    figures += f" ({digits(row['latency_ms'])} ms, Inductor {digits(row['compile_ms'])} ms)"
    versions = ", ".join(f"{item} {version}" for item, version in row["versions"].items())
    unused = f"; not used: {row['problem']}" if row["problem"] else ""
    return f"{name} {figures}, {row['device']}, {versions}{unused}"
