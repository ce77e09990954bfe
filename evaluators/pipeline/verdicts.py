"""Turns outcomes into `Evaluation`s."""

from __future__ import annotations

from typing import Any

from ...core import Config, Evaluation, Kernel, Rejection, Status, Target
from ..candidate.client import CandidateClient
from ..candidate.verified import CandidateError
from ..compilation.pool import VERDICTS, CompileResult
from ..languages.base import support_of
from ..reference.client import ReferenceClient
from ..settings import Precision


def common_fields(reference_client: ReferenceClient, kernel: Kernel, config: Config) -> dict[str, Any]:
    """Return the fields of every evaluation: kernel, config, device."""
    interpreted = kernel.target is Target.CUDA and "uuid" not in reference_client.environment
    remarks = support_of(kernel.language).interpreter_remarks if interpreted else {}
    told = {name: text.format(gpu=reference_client.described_gpu) for name, text in remarks.items()}
    return {
        "status": Status.OK,
        "kernel_digest": kernel.digest,
        "config": dict(config),
        "environment": {**reference_client.environment, **told},
        **reference_client.arithmetic,
    }


def failed_evaluation(
    reference_client: ReferenceClient, client: CandidateClient, config: Config, failure: CandidateError
) -> Evaluation:
    """Return the evaluation of a config that failed."""
    found = common_fields(reference_client, client.kernel, config) | {"status": failure.status}
    return Evaluation(
        **found,
        message=failure.message,
        log=client.log,
        correctness=failure.correctness,
        rejection=failure.rejection,
    )


def rejected_evaluation(kernel: Kernel, config: Config, rejection: Rejection, precision: Precision) -> Evaluation:
    """Return the evaluation of a config whose kernel's source breaks a rule: nothing was started for it."""
    return Evaluation(
        status=Status.REJECTED,
        kernel_digest=kernel.digest,
        config=dict(config),
        message=str(rejection),
        rejection=rejection,
        precision=precision.value,
    )


def compile_failure(
    reference_client: ReferenceClient, kernel: Kernel, config: Config, compiled: CompileResult
) -> Evaluation:
    """Return the evaluation of a config that failed to compile."""
    found = common_fields(reference_client, kernel, config) | {"status": VERDICTS[compiled.status]}
    return Evaluation(**found, message=compiled.message, log=compiled.log, compile_s=compiled.seconds)


def duplicate_evaluation(evaluation: Evaluation, kernel: Kernel, config: Config) -> Evaluation:
    """Return the evaluation of a kernel and config with the same code as one measured before: the same result."""
    same = {"kernel_digest": kernel.digest, "config": dict(config), "duplicate_of": evaluation.config}
    return evaluation.model_copy(update=same)
