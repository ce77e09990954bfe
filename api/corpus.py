"""`corpus add` and `corpus list`: a verified improvement becomes a worked example that others can use, too."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..agent.archived_run import archived
from ..agent.history.files import records_of, run_files
from ..agent.program.retrieval import operation_of
from ..agent.workbench import START_BESIDE
from ..core import (
    TECHNIQUES,
    Archive,
    ArchivedRun,
    ExampleError,
    FinishedRecord,
    Improvement,
    OptionError,
    Record,
    TorchProblem,
    Trial,
    WorkedExample,
    of_backend,
)
from ..core.files import archive_path, own_examples
from ..core.journal import of
from ..core.syntax_tree import literal
from ..core.technique_words import techniques_in
from ..corpus import find_problem
from ..corpus.examples import Description, ExampleFolder, list_examples, write_example
from ..corpus.recorded import RecordedProblem
from ..rag import kernel_operation
from .options.corpus import AddOptions, ListOptions

_ARCHIVED = re.compile(r"[0-9a-f]{16}")


@dataclass(frozen=True)
class AddResult:
    """The example that was written."""

    example: WorkedExample
    path: Path
    """Its folder."""

    def summary(self) -> dict[str, Any]:
        """The result as plain data, as `--json` prints it."""
        return {"path": str(self.path), **example_record(self.example)}


def example_record(example: WorkedExample) -> dict[str, Any]:
    """An example as plain data, without its sources."""
    return {
        "example": example.slug,
        "title": example.title,
        "operation": example.operation,
        "category": example.category,
        "techniques": list(example.techniques),
        "gain": example.gain.model_dump(mode="json") if example.gain else None,
    }


def run_add(options: AddOptions) -> AddResult:
    """Write the verified improvement of a run as a worked example."""
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
    described = Description(
        title=title,
        operation=operation_of(run.operators) or kernel_operation(better.before),
        bottleneck=better.category,
        techniques=techniques,
        story=better.story or f"{title} made it {better.gain.speedup:.2f} times as fast.",
        problem=run.problem,
    )
    sources = {"problem.py": _at_sizes(problem, run), "before.py": better.before, "after.py": better.after}
    slug = f"{run.backend}/{options.name or _name(problem.name, techniques[0])}"
    folder = write_example(options.folder or own_examples(), slug, sources, described, better.gain)
    return AddResult(folder.read(), folder.path)


def run_list(options: ListOptions) -> list[WorkedExample]:
    """The shipped examples and the user's own, or those of a folder."""
    own = own_examples()
    found: Sequence[ExampleFolder] = (
        list_examples(options.folder)
        if options.folder is not None
        else [*list_examples(), *(list_examples(own) if own.is_dir() else [])]
    )
    return [folder.read() for folder in found if options.backend in (None, folder.backend)]


def _verified(named: str) -> tuple[ArchivedRun, Improvement]:
    """The run, and its improvement; raises `ExampleError` with the reason where it has none that was verified."""
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
        return "its start was not timed beside the result, so run it again"
    return "nothing became faster"


def _problem(run: ArchivedRun, options: AddOptions) -> TorchProblem:
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
    """The problem's source with the sizes of the run as its last constants, which is when an evaluator sets them."""
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
