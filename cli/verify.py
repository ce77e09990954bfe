"""`kernelwright corpus verify`: both kernels of every example, checked and timed on this machine's device."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.markup import escape

from ..core import Config, Evaluation, Gain, OptionError, Speedup, Target, TorchProblem
from ..core.files import write_whole
from ..corpus.examples import ExampleFolder, list_examples, read_gains
from ..corpus.names import nearest
from ..evaluators.local import LocalEvaluator
from . import wiring
from .console import console
from .request import Request


def run_verify(names: Sequence[str], device: str, record: Path | None, as_json: bool, quiet: bool) -> int:
    """Measure the examples that the device can run; 0 when all of them are right."""
    chosen_device = wiring.choose_device(Request(device=device))
    folders = _chosen(names, chosen_device)
    screen = console(stderr=as_json)
    known = dict(read_gains(record)) if record else {}
    results: list[dict[str, Any]] = []
    with wiring.evaluator(chosen_device) as evaluator:
        for number, folder in enumerate(folders, start=1):
            result = _verify(evaluator, folder, timed=not _only_checked(folder, chosen_device))
            results.append(result)
            if not quiet:
                screen.print(f"[{number}/{len(folders)}] {_line(result)}")
            if record and _noted(known, result):
                # Only what was set: a record from before there were digests stays as it is.
                found = {slug: known[slug].model_dump(mode="json", exclude_unset=True) for slug in sorted(known)}
                write_whole(record, json.dumps(found, indent=1) + "\n", "choose another --record")
    wrong = [result["example"] for result in results if not result["right"]]
    if as_json:
        print(json.dumps({"results": results, "wrong": wrong}), file=sys.stdout)
    else:
        screen.print(f"{len(results) - len(wrong)} of {len(results)} examples are right")
    return 1 if wrong else 0


def _noted(known: dict[str, Gain], result: dict[str, Any]) -> bool:
    """Put the figures of an example among the known ones, or, where it is wrong, take them out; whether that changed
    anything. A right example that was not timed keeps the figures that it has."""
    if not result["right"]:
        return known.pop(result["example"], None) is not None
    if result["gain"] is None:
        return False
    known[result["example"]] = Gain.model_validate(result["gain"])
    return True


def _chosen(names: Sequence[str], device: str) -> list[ExampleFolder]:
    folders = {folder.slug: folder for folder in list_examples()}
    if unknown := [name for name in names if name not in folders]:
        raise OptionError(f"there is no example {unknown[0]!r}{nearest(unknown[0], list(folders))}")
    wanted = [folders[name] for name in names] or list(folders.values())
    runnable = [folder for folder in wanted if _runs(folder, device)]
    if not runnable:
        raise OptionError(f"none of these examples runs on {device}; give others, or another --device")
    return runnable


def _runs(folder: ExampleFolder, device: str) -> bool:
    on_cpu = folder.read_kernel("before").target is Target.CPU
    return on_cpu == (device == wiring.CPU) or _only_checked(folder, device)


def _only_checked(folder: ExampleFolder, device: str) -> bool:
    """Triton's interpreter checks on a CPU and does not time."""
    return device == wiring.CPU and folder.backend == "triton"


def _verify(evaluator: LocalEvaluator, folder: ExampleFolder, timed: bool) -> dict[str, Any]:
    digest, problem = folder.digest, folder.read_problem()
    problem = problem if timed else problem.at("tiny")
    before, after = (_evaluate(evaluator, folder, which, problem) for which in ("before", "after"))
    return {
        "example": folder.slug,
        "right": before.ok and after.ok,
        "messages": [f"{e.status}: {e.message}" for e in (before, after) if not e.ok],
        "gain": _gain(before, after, digest),
    }


def _evaluate(evaluator: LocalEvaluator, folder: ExampleFolder, which: str, problem: TorchProblem) -> Evaluation:
    (evaluation,) = evaluator.evaluate(problem, folder.read_kernel(which), [Config()])
    return evaluation


def _gain(before: Evaluation, after: Evaluation, digest: str) -> dict[str, Any] | None:
    """The gain as it is recorded; None where nothing was timed, or other processes disturbed it."""
    if before.measurement is None or after.measurement is None:
        return None
    if before.contention is not None or after.contention is not None:
        return None
    speedup = Speedup.between(before.measurement, after.measurement)
    return Gain(
        before_ms=before.measurement.median_ms,
        after_ms=after.measurement.median_ms,
        speedup=round(speedup.ratio, 4),
        low=round(speedup.low, 4),
        high=round(speedup.high, 4),
        device=after.environment["device"],
        environment=after.environment,
        digest=digest,
    ).model_dump(mode="json")


def _line(result: dict[str, Any]) -> str:
    slug = escape(result["example"])
    if not result["right"]:
        return f"[red]{slug}[/]: {escape('; '.join(result['messages']))}"
    gain = result["gain"]
    if gain is None:
        return f"[green]{slug}[/]: right, not timed"
    return (
        f"[green]{slug}[/]: {gain['before_ms']:.4f} ms to {gain['after_ms']:.4f} ms, "
        f"{gain['speedup']:.2f}x \\[{gain['low']:.2f}, {gain['high']:.2f}]"
    )
