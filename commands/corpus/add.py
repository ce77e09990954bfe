"""Make a worked example of a run's verified improvement, in your own folder or in a shared one.

With 'optimize --examples ~/team' models see them in addition to the shipped ones.

Exit codes: 0 written, 2 the run has no verified improvement, or wrong usage.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from rich.markup import escape
from rich.text import Text

from ...agent.archived_run import archived
from ...agent.history.records import records_of, run_files
from ...agent.program.retrieval import operation_of
from ...agent.workbench import START_BESIDE
from ...core import (
    TECHNIQUES,
    Archive,
    ArchivedRun,
    ExampleError,
    FinishedRecord,
    Gain,
    Improvement,
    OptionError,
    Record,
    TorchProblem,
    Trial,
    WorkedExample,
    of_backend,
)
from ...core.events import Emit
from ...core.files import archive_path, own_examples
from ...core.journal import of
from ...core.syntax_tree import literal
from ...core.technique_words import techniques_in
from ...corpus import find_problem
from ...corpus.examples import Description, write_example
from ...corpus.recorded import RecordedProblem
from ...rag import kernel_operation
from ...runtime import command, result
from ...runtime.options.groups import OUTPUT, WHERE
from ...runtime.options.option import Options as BaseOptions
from ...runtime.options.option import described, option
from ...runtime.runtime import Runtime

EXAMPLES = ("corpus add results", "corpus add results/multiturn_logs/journal_36_RMSNorm.jsonl --folder ~/team")
POSITIONAL = ("run",)
_ARCHIVED = re.compile(r"[0-9a-f]{16}")


@dataclass(frozen=True, kw_only=True)
class Options(BaseOptions):
    """Make a worked example of a run's verified improvement."""

    run: str = field(
        kw_only=False,
        metadata=described(
            "The journal of a run, a results folder with one run, or the 16-digit id of a run in the archive.",
            metavar="RUN",
        ),
    )
    folder: Path | None = option(
        None, "Folder of examples to write to, such as one shared by a team; by default the user's own.", OUTPUT
    )
    name: str | None = option(None, "The example's name; by default derived from its problem and technique.", OUTPUT)
    technique: tuple[str, ...] = option(
        (), "A technique that made it faster; may be repeated. By default those named by its strategies.", OUTPUT
    )
    problem: str | None = option(
        None, "The problem that the run solved, if its id does not identify it.", WHERE, trusted=True
    )
    dataset: Path | None = option(None, "A KernelBench checkout with the problem.", WHERE, trusted=True)

    def check(self) -> None:
        """Raise `OptionError` for a name that no folder may have."""
        super().check()
        if self.name is not None and not re.fullmatch(r"[A-Za-z0-9][\w-]*", self.name):
            raise OptionError(f"`name` {self.name!r}", "use letters, digits and hyphens")


@dataclass(frozen=True)
class Plan(command.Plan):
    """An example to write."""

    folder: Path
    slug: str
    sources: Mapping[str, str] = field(metadata=command.NOT_SHOWN)
    described: Description = field(metadata=command.NOT_SHOWN)
    gain: Gain


class Result(result.Result):
    """The example that was written."""

    inlined: ClassVar = ("record",)
    path: Path
    """The example's folder."""
    example: result.ForPython[WorkedExample]

    @result.computed
    def record(self) -> dict[str, Any]:
        """The example without its sources."""
        return self.example.to_json()

    def lines(self) -> Iterator[Any]:
        """The example and its folder."""
        yield Text.from_markup(f"[bold]{escape(self.example.slug)}[/]: {escape(self.example.in_words)}")
        yield f"example: {self.path}"


def plan(options: Options, runtime: Runtime) -> Plan:
    """Find the run, and the techniques of its improvement."""
    run, better = _verified(options.run)
    problem = _problem(run, options)
    techniques = options.technique or tuple(sorted(techniques_in(" ".join([*better.techniques, better.story]))))
    if not techniques:
        raise OptionError(
            f"no technique is known for {', '.join(better.techniques) or 'this run'}",
            f"name one with `technique`: {', '.join(TECHNIQUES)}",
        )
    if unknown := [item for item in techniques if item not in TECHNIQUES]:
        raise OptionError(f"`technique` {unknown[0]!r}", f"use {', '.join(TECHNIQUES)}")
    of_backend(run.backend)  # an archive may name a language that is not installed
    title = f"{problem.name.replace('_', ' ').strip()}: {', '.join(better.techniques) or 'other parameters'}"
    what = Description(
        title=title,
        operation=operation_of(run.operators) or kernel_operation(better.before),
        bottleneck=better.category,
        techniques=techniques,
        story=better.story or f"{title} made it {better.gain.speedup:.2f} times as fast.",
        problem=run.problem,
    )
    sources = {"problem.py": _at_sizes(problem, run), "before.py": better.before, "after.py": better.after}
    slug = f"{run.backend}/{options.name or _name(problem.name, techniques[0])}"
    return Plan(options.folder or own_examples(), slug, sources, what, better.gain)


def run(plan: Plan, emit: Emit) -> Result:
    """Write the example."""
    folder = write_example(plan.folder, plan.slug, plan.sources, plan.described, plan.gain)
    return Result(example=folder.read(), path=folder.path)


def _verified(named: str) -> tuple[ArchivedRun, Improvement]:
    """Return the run and its improvement. Raises `ExampleError` with the reason if it has no verified one."""
    if _ARCHIVED.fullmatch(named) and not Path(named).exists():
        run = next((item for item in Archive(archive_path()).read() if item.run == named), None)
        if run is None:
            raise ExampleError(f"the archive {archive_path()} has no run {named}; give the journal of one")
        reason = "nothing faster was verified"
    else:
        journal = run_files(Path(named)).journal
        records = records_of(journal)
        try:
            run = archived(records)
        except (KeyError, ValueError) as error:
            raise ExampleError(f"{journal} is not a run's journal ({error}); give another one") from None
        reason = _why_not(records)
    if run is None or run.improvement is None:
        raise ExampleError(f"{named} has no verified improvement: {reason}; only what was verified becomes an example")
    return run, run.improvement


def _why_not(records: Sequence[Record]) -> str:
    finished = next(of(reversed(records), FinishedRecord), None)
    if finished is None:
        return "the run did not finish"
    if not finished.verified:
        return f"no kernel passed the final check ({finished.stopped})"
    if finished.best.contention is not None or finished.start.contention is not None:
        return "other processes disturbed its measurements"
    if not any(item.origin == START_BESIDE for item in of(records, Trial)):
        return "its start was not timed together with the result, so run it again"
    return "nothing became faster"


def _problem(run: ArchivedRun, options: Options) -> TorchProblem:
    problem = find_problem(options.problem or run.problem, options.dataset).read()
    if isinstance(problem, RecordedProblem):
        raise ExampleError(f"{run.problem} has recorded workloads, and an example is one file with random inputs")
    if run.reference and problem.digest != run.reference:
        raise ExampleError(
            f"the problem {problem.path or problem.id} is not the one that the run solved",
            "name that one with `problem`, or its KernelBench checkout with `dataset`",
        )
    return problem


def _at_sizes(problem: TorchProblem, run: ArchivedRun) -> str:
    """Return the problem's source with the run's sizes as its last constants, where an evaluator sets them."""
    try:
        sizes = dict(literal(run.sizes or "[]"))
    except (SyntaxError, TypeError, ValueError):
        raise ExampleError(f"the run's sizes {run.sizes!r} are not those of one workload") from None
    lines = [f"{name} = {value!r}" for name, value in problem.resized("of the run", sizes).sizes.items()]
    return (
        "\n".join([problem.source.rstrip("\n"), *(["", "# The sizes that were measured.", *lines] if lines else [])])
        + "\n"
    )


def _name(problem: str, technique: str) -> str:
    """'softmax-unrolling' for '23_Softmax' and 'unrolling'."""
    words = re.sub(r"[^a-z0-9]+", "-", problem.lower()).strip("-")
    return f"{words.lstrip('0123456789-') or words}-{technique}"
