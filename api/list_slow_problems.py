"""Problems without a kernel, ranked by what there is to gain: eager and compiled time over the roofline floor."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from dataclasses import asdict, dataclass
from typing import Any

from ..core import KernelwrightError, Target, TorchProblem
from ..core.baselines import COMPILE, DEFAULT
from ..corpus import find_problem, list_problems
from ..evaluators.local import LocalEvaluator
from .jobs import at_workload
from .options.optimize import ListSlowOptions
from .speedup_records import Records, problem_key


@dataclass(frozen=True)
class SlowProblem:
    """A problem without a kernel. Times are medians of one call, in milliseconds."""

    headroom: float
    """The faster of eager and compiled time over the floor."""
    problem: str
    """`level2/2_26.py`, or a Definition's name: what `optimize` takes."""
    eager_ms: float
    """Of eager PyTorch with its own defaults."""
    compile_ms: float | None
    """With torch.compile; None where that fails."""
    floor_ms: float
    """What moving the bytes, or the matrix products, take at least (the roofline model)."""
    name: str
    workload: str
    device: str
    contention: float | None
    """Cores that other processes used meanwhile, where that makes the times unreliable."""

    def record(self) -> dict[str, Any]:
        """The row as plain data."""
        return asdict(self)


def problems_without(known: Set[str], options: ListSlowOptions) -> list[Any]:
    """Return the files of a dataset's problems that none of the `known` ids names."""
    if options.dataset is None or options.folder is not None:
        return []
    offered = [find_problem(options.problem, options.dataset)] if options.problem else list_problems(options.dataset)
    return [file for file in offered if file.id not in known]


def measure_problems(
    files: list[Any],
    options: ListSlowOptions,
    device: str,
    evaluator: LocalEvaluator,
    records: Records,
    advance: Callable[[str], None],
) -> Iterator[SlowProblem | str]:
    """Yield a row, or why there is none, for each problem; what is measured is recorded at once.

    A reference that fails, or does not return the same twice, costs its own row only.
    """
    for file in files:
        try:
            problem = at_workload(file.read(), Target.of_device(device), device, options.workload)
            row = _row(problem, options, device, evaluator, records)
        except KernelwrightError as error:
            advance(f"{file.id} failed")
            yield f"{file.id}: {error}"
        else:
            advance(f"{file.id} failed" if isinstance(row, str) else f"{file.id} {row.headroom:.1f}x its floor")
            yield f"{file.id}: {row}" if isinstance(row, str) else row


def _row(
    problem: TorchProblem, options: ListSlowOptions, device: str, evaluator: LocalEvaluator, records: Records
) -> SlowProblem | str:
    key = {**problem_key(problem, device, options), "kernel": "none"}
    known = records.find_or_measure(key, options, lambda: _measured(problem, evaluator))
    if isinstance(known, str):
        return known
    times = [time for time in (known["eager_ms"], known["compile_ms"]) if time is not None]
    return SlowProblem(
        headroom=min(times) / known["floor_ms"],
        problem=f"{problem.id}.py" if "/" in problem.id else problem.id,
        eager_ms=known["eager_ms"],
        compile_ms=known["compile_ms"],
        floor_ms=known["floor_ms"],
        name=problem.name,
        workload=problem.workload,
        device=key["device"],
        contention=known["contention"],
    )


def _measured(problem: TorchProblem, evaluator: LocalEvaluator) -> tuple[dict[str, Any], dict[str, str]]:
    profile = evaluator.profile(problem)
    times = evaluator.time_reference(problem)
    assert times.reference is not None
    default, compiled = times.baselines.get(DEFAULT), times.baselines.get(COMPILE)
    metrics = {
        # Where its defaults make no difference, eager is timed once.
        "eager_ms": (default or times.reference.measurement).median_ms,
        "compile_ms": compiled.median_ms if compiled else None,
        "floor_ms": profile.floor_ms,
        "contention": times.contention,
    }
    return metrics, evaluator.environment(problem)
