"""Write a recorded search in another form.

Exit codes: 0 finished, 2 wrong usage.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ...core import OptionError
from ...core.events import Emit
from ...runtime import command, result
from ...runtime.options.option import Options as BaseOptions
from ...runtime.options.option import described, option
from ...runtime.runtime import Runtime
from ...tuners.formats import read_recording, write_csv, write_t4
from ...tuners.recording import Recording

EXAMPLES = ("tune export journal.jsonl --csv search.csv", "tune export journal.jsonl --t4 results.json")
POSITIONAL = ("journal",)


@dataclass(frozen=True, kw_only=True)
class Options(BaseOptions):
    """Write a recorded search in another form."""

    journal: Path = field(kw_only=False, metadata=described("A recorded search in any readable form."))
    csv: Path | None = option(None, "Write a CSV; packed if it ends in .gz.", metavar="FILE")
    t4: Path | None = option(None, "Write T4 results as JSON; packed if it ends in .gz.", metavar="FILE")
    kernel: str | None = option(None, "The kernel's digest, in a journal with several.", metavar="DIGEST")

    def check(self) -> None:
        """Raise `OptionError` for impossible targets."""
        super().check()
        targets = [path for path in (self.csv, self.t4) if path is not None]
        if not targets or self.csv == self.t4:
            raise OptionError("there is no file to write", "give `csv` FILE, `t4` FILE, or both with different files")
        if any(path.resolve() == self.journal.resolve() for path in targets):
            raise OptionError(f"{self.journal} would be overwritten", "choose another file to write")


@dataclass(frozen=True)
class Plan(command.Plan):
    """A recorded search, and the files to write."""

    recording: Recording = field(metadata=command.NOT_SHOWN)
    csv: Path | None
    t4: Path | None


class Result(result.Result):
    """The written file."""

    recording: result.ForPython[Recording]
    files: tuple[Path, ...]

    @result.computed
    def configs(self) -> int:
        """Number of recorded configs."""
        return len(self.recording.results)

    @result.computed
    def best_ms(self) -> float:
        """Milliseconds of the fastest."""
        return self.recording.best[1]

    def lines(self) -> Iterator[str]:
        """A line for each file."""
        for path in self.files:
            yield f"wrote {path}: {self.configs} configs, best {self.best_ms:.6g} ms"


def plan(options: Options, runtime: Runtime) -> Plan:
    """Read the search."""
    return Plan(read_recording(options.journal, options.kernel), options.csv, options.t4)


def run(plan: Plan, emit: Emit) -> Result:
    """Write it in the requested forms."""
    if plan.csv is not None:
        write_csv(plan.csv, plan.recording)
    if plan.t4 is not None:
        write_t4(plan.t4, plan.recording)
    return Result(recording=plan.recording, files=tuple(path for path in (plan.csv, plan.t4) if path is not None))
