"""The jobs that a process of `worker` does: a function of `api`, its events as steps, and its record as a reply."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ..core import Evaluation, Kernel
from ..runtime.command import find_command
from .messages import Done, Wire
from .results.reading import Explanation
from .steps import Steps


def evaluate(given: Mapping[str, Any], wire: Wire) -> Done:
    """One kernel, checked and timed."""
    from ..api.devices import choose_device
    from ..api.evaluate import run_evaluate
    from ..api.jobs import find_job
    from ..api.options.evaluate import EvaluateOptions
    from .results.verdict import Verdict

    asked = _Asked(given)
    options = EvaluateOptions(**asked.options)
    verdicts = run_evaluate(options, Steps(wire).emit)
    verdict = Verdict.of(asked.kernel, verdicts)
    if verdict.correct:
        return asked.done(verdict)
    job = find_job(options, asked.options["kernel"], choose_device(options))
    return asked.done(verdict, job.kernel, verdicts.evaluation)


def profile(given: Mapping[str, Any], wire: Wire) -> Done:
    """Where one kernel's time goes."""
    from ..api.options.evaluate import ProfileOptions
    from ..api.profile import run_profile
    from .results.bottleneck import Profiled

    asked = _Asked(given)
    result = run_profile(ProfileOptions(**asked.options), Steps(wire).emit)
    return asked.done(Profiled.of(asked.kernel, result), result.job.kernel, result.evaluation)


def tune(given: Mapping[str, Any], wire: Wire) -> Done:
    """A search of one kernel's parameters."""
    from ..commands.tune import kernel as command
    from ..runtime.runtime import Runtime
    from .results.runs import Tuned

    asked = _Asked(given)
    emit = Steps(wire).emit
    with Runtime(emit) as runtime:
        result = command.run(command.plan(command.Options(**asked.options), runtime), emit)
    reply = Tuned.of(asked.run, asked.kernel, result, asked.shown)
    found = result.found
    failed = (
        next((evaluation for evaluation in found.evaluations if not evaluation.ok), None)
        if found.best is None
        else None
    )
    kernel = result.job.kernel
    return asked.done(reply, kernel.bind(failed.config) if failed else kernel, failed)


def optimize(given: Mapping[str, Any], wire: Wire) -> Done:
    """A kernel rewritten over several turns."""
    from ..api.optimize import run_optimize
    from ..api.options.optimize import OptimizeOptions
    from .results.runs import Optimized

    asked = _Asked(given)
    options = OptimizeOptions(**asked.options)
    result = run_optimize(options, Steps(wire).emit)
    return asked.done(Optimized.of(asked.run, asked.kernel, result, asked.shown))


def list_slow(given: Mapping[str, Any], wire: Wire) -> Done:
    """Kernels by measured speedup."""
    from ..api.list_slow import run_list_slow
    from ..api.options.optimize import ListSlowOptions
    from .results.listing import SlowList

    asked = _Asked(given)
    listing = run_list_slow(ListSlowOptions(**asked.options), Steps(wire).emit)
    return asked.done(SlowList.of(listing, lambda name: asked.shown(Path(name)) if Path(name).is_absolute() else name))


def report(given: Mapping[str, Any], wire: Wire) -> Done:
    """The page of a recorded run."""
    from ..api.options.report import ReportOptions
    from ..api.report import run_report

    result = run_report(ReportOptions(**_Asked(given).options), Steps(wire).emit)
    return Done(result={"page": str(result.page)})


JOBS: dict[str, Callable[[Mapping[str, Any], Wire], Done]] = {
    function.__name__: function for function in (evaluate, profile, tune, optimize, list_slow, report)
}


def find_job(name: str) -> Callable[[Mapping[str, Any], Wire], Done]:
    """Return what does a job: one of `JOBS`, or a command of the registry."""
    return JOBS[name] if name in JOBS else partial(_command, name)


def _command(name: str, given: Mapping[str, Any], wire: Wire) -> Done:
    """A command, whose result is the reply."""
    command = find_command(name)
    assert command is not None, name
    result = command.call(command.options(**given["options"]), Steps(wire).emit)
    return Done(result=_short(result.to_json()))


class _Asked:
    """What the server asked: the options of the function, and how to name things in the reply."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.options: dict[str, Any] = given["options"]
        self.kernel: str = given.get("kernel", "")
        """As it was named in the call."""
        self.run: str = given.get("run", "")
        self._root = Path(given["root"])

    def shown(self, path: Path) -> str:
        """A path relative to the server's folder."""
        return str(path.resolve().relative_to(self._root))

    def done(self, reply: Any, kernel: Kernel | None = None, evaluation: Evaluation | None = None) -> Done:
        """The reply, and the explanation of an evaluation that failed."""
        explanation = None
        if kernel is not None and evaluation is not None and not evaluation.ok:
            from ..api.explain import explain

            explanation = Explanation.of(self.kernel, explain(kernel, evaluation))
        return Done(result=_short(reply.model_dump(mode="json")), explanation=explanation)


def _short(value: Any) -> Any:
    """Plain data with figures of as many digits as measurements have."""
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, Mapping):
        return {name: _short(one) for name, one in value.items()}
    return [_short(item) for item in value] if isinstance(value, list) else value
