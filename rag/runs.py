"""Examples from this installation's own runs: the first kernel of an optimization, and the last."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ..core import ArchivedRun, KernelError, PythonKernel, WorkedExample
from ..core.technique_words import techniques_in
from .code.operation import operation
from .code.syntax import parse

LEAST_GAIN = 1.1
"""Minimum speedup over its start kernel for a run to be an example."""
UNKNOWN = "unknown operation"
FAILURES = 3
"""The most failures that an example tells of."""


def run_examples(runs: Iterable[ArchivedRun], note: Callable[[str], None] = lambda line: None) -> list[WorkedExample]:
    """Return the examples in the archive, one per run whose verified kernel is at least `LEAST_GAIN` times as fast as
    its start kernel. `note` gets a line for each that cannot be read."""
    found = []
    for run in runs:
        try:
            example = _example(run)
        except KernelError as error:
            note(f"no example from the run {run.run} of {run.problem}: {error}")
            continue
        if example is not None:
            found.append(example)
    return found


def _example(run: ArchivedRun) -> WorkedExample | None:
    better = run.improvement
    if better is None or better.gain.speedup < LEAST_GAIN:
        return None
    before, after = PythonKernel.parse(better.before), PythonKernel.parse(better.after)
    return WorkedExample(
        slug=f"run/{run.problem.replace('/', '-')}-{run.run[:8]}",
        title=f"{run.problem}: {', '.join(better.techniques) or 'other parameters'}",
        language=before.language,
        target=before.target,
        operation=kernel_operation(before.source),
        category=better.category,
        techniques=tuple(sorted(techniques_in(" ".join([*better.techniques, better.story])))),
        before=before.source,
        after=after.source,
        story=" ".join(filter(None, [better.story, _failures(run)])),
        problem=run.problem,
        origin="run",
        gain=better.gain,
    )


def kernel_operation(source: str) -> str:
    """Return what a kernel seems to compute; `UNKNOWN` for code that cannot be analysed."""
    try:
        return operation(parse(source))
    except Exception:  # a model may write any code; the run is useful without a label
        return UNKNOWN


def _failures(run: ArchivedRun) -> str:
    """Return what failed on the way, in a sentence; empty if nothing did."""
    causes = {item.technique: item.cause for item in run.tried if not item.gain and item.cause}
    some = [f"{technique} ({cause})" for technique, cause in list(causes.items())[:FAILURES]]
    return f"What failed on the way: {'; '.join(some)}." if some else ""
