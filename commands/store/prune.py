"""Remove entries that are damaged, of other versions, or slower than another one for the same region.

Exit codes: 0 done, 2 wrong usage, or an entry that cannot be removed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ...core import ResultsError
from ...core.events import Emit
from ...deploy.models.store import RegionStore
from ...runtime import command, result
from ...runtime.runtime import Runtime
from ._options import StoreOptions

EXAMPLES = ("store prune", "store prune --dry-run")


@dataclass(frozen=True, kw_only=True)
class Options(StoreOptions):
    """Remove useless entries from the store's first folder."""


@dataclass(frozen=True)
class Plan(command.Plan):
    """The files to remove."""

    removed: dict[str, str]
    """Paths, each with the reason."""


class Result(result.Result):
    """The files that were removed."""

    removed: dict[str, str]
    """Paths, each with the reason."""

    def lines(self) -> Iterator[str]:
        """A line for each."""
        yield from (f"removed {path}: {reason}" for path, reason in self.removed.items())
        yield f"{len(self.removed)} removed"


def plan(options: Options, runtime: Runtime) -> Plan:
    """Find useless entries in the first folder, the only one that is written to."""
    store = RegionStore(options.folders[:1])
    removed = {}
    for file in store.files():
        if file.damaged:
            removed[str(file.path)] = "damaged"
        elif file.entry is not None and (stale := file.entry.stale()):
            removed[str(file.path)] = f"measured with {stale}"
        elif not file.problem and (best := store.find(file.key)) is not None and best.name != file.name:
            removed[str(file.path)] = f"{best.name[:41]} is faster"
    return Plan(removed)


def run(plan: Plan, emit: Emit) -> Result:
    """Remove them. Raises `ResultsError` without permission."""
    for path in map(Path, plan.removed):
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise ResultsError(f"cannot remove {path}: {error.strerror}") from None
    return Result(removed=plan.removed)
