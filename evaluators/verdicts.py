"""From what happened to an `Evaluation`."""

from __future__ import annotations

from typing import Any

from ..core import Config, Evaluation, Kernel, Rejection, Status
from .bench import Bench
from .compiling import Compiled, CompileStatus
from .findings import Failure
from .judging import Judge

_STATUSES = {
    CompileStatus.FAILED: Status.COMPILE_ERROR,
    CompileStatus.TIMEOUT: Status.TIMEOUT,
    CompileStatus.CRASHED: Status.CRASHED,
}


def verdict(judge: Judge, kernel: Kernel, config: Config) -> dict[str, Any]:
    """What every evaluation says: of which kernel and config, on which device."""
    return {
        "status": Status.OK,
        "kernel_digest": kernel.digest,
        "config": dict(config),
        "environment": judge.environment,
    }


def failed_evaluation(judge: Judge, bench: Bench, config: Config, failure: Failure) -> Evaluation:
    """A config that did not pass."""
    found = verdict(judge, bench.kernel, config) | {"status": failure.status}
    return Evaluation(
        **found,
        message=failure.message,
        log=bench.log,
        correctness=failure.correctness,
        rejection=failure.rejection,
    )


def rejected_evaluation(kernel: Kernel, config: Config, rejection: Rejection) -> Evaluation:
    """A config of a kernel whose source breaks a rule: nothing was started for it."""
    return Evaluation(
        status=Status.REJECTED,
        kernel_digest=kernel.digest,
        config=dict(config),
        message=str(rejection),
        rejection=rejection,
    )


def refused(judge: Judge, kernel: Kernel, config: Config, compiled: Compiled) -> Evaluation:
    """A config that did not get through the compiler."""
    found = verdict(judge, kernel, config) | {"status": _STATUSES[compiled.status]}
    return Evaluation(**found, message=compiled.message, compile_s=compiled.seconds)


def twin(evaluation: Evaluation, config: Config) -> Evaluation:
    """A config whose code is that of one measured before: the same verdict."""
    return evaluation.model_copy(update={"config": dict(config), "duplicate_of": evaluation.config})
