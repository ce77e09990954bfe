"""Put verified results for recorded regions into the store, for the backend of torch.compile.

A result enters if it is 2 % faster than Inductor's code for the same region, and agrees with the region's reference in
another comparison.

Exit codes: 0 added, 2 wrong usage, or a result that cannot be added.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ...core import KernelError, OptionError
from ...core.events import Emit, working
from ...core.language import Target, default_backend
from ...corpus import find_kernel, find_problem
from ...deploy.models.results import require_entry, stored_region
from ...deploy.models.store import RegionStore
from ...deploy.source import MeasuredKernel, measured_kernel
from ...runtime import command, result
from ...runtime.options.option import described, option
from ...runtime.runtime import Runtime
from ._options import StoreOptions

EXAMPLES = ("store add results/region_optimized_1.3x_triton.py --problem recorded/5e3919fd9f47.py",)
POSITIONAL = ("results",)


@dataclass(frozen=True, kw_only=True)
class Options(StoreOptions):
    """Put verified results into the store."""

    results: tuple[Path, ...] = field(
        kw_only=False, metadata=described("Kernel files that optimize wrote for a region.", metavar="RESULT...")
    )
    problem: str | None = option(
        None, "The region's problem file, if the results' headers do not say.", metavar="REF", trusted=True
    )

    def check(self) -> None:
        """Raise `OptionError` without a result."""
        super().check()
        if not self.results:
            raise OptionError("there is nothing to add", "name files that optimize wrote for a region")


@dataclass(frozen=True)
class Plan(command.Plan):
    """The results to add."""

    folder: Path
    results: tuple[MeasuredKernel, ...] = field(metadata=command.NOT_SHOWN)


class Result(result.Result):
    """The entries that were written."""

    written: tuple[Path, ...]

    def lines(self) -> Iterator[str]:
        """Each path."""
        yield from (f"added {path}" for path in self.written)


def plan(options: Options, runtime: Runtime) -> Plan:
    """Read the results and their problems."""
    found = []
    for path in options.results:
        if not path.is_file():
            raise KernelError(f"there is no file {path}; name a kernel file that optimize wrote")
        file = find_kernel(str(path), default_backend(Target.CPU))
        problem = find_problem(options.problem or file.problem).read()
        measured = measured_kernel(path, file.read(), problem)
        require_entry(measured)
        found.append(measured)
    return Plan(options.folders[0], tuple(found))


def run(plan: Plan, emit: Emit) -> Result:
    """Verify and write them."""
    store, written = RegionStore([plan.folder]), []
    for measured in plan.results:
        with working(emit, f"verifying {measured.path}"):
            entry = stored_region(measured)
        written.append(store.add(entry))
    return Result(written=tuple(written))
