"""What travels to another machine and back: plain JSON, and nothing of this machine but the question.

A payload holds texts, configs and settings. It holds no path, no variable of the environment and no key.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, TypeAdapter

from ...core import (
    Config,
    DeviceError,
    Evaluation,
    Kernel,
    KernelwrightError,
    Language,
    Problem,
    Profile,
    PythonKernel,
    Target,
    Tolerance,
    TorchProblem,
)
from ...core import errors as user_errors
from ...core.measurement import Measurement
from ...core.space import Value
from ..settings import Settings

VERSION: Literal[1] = 1
"""Of the payload's form: both ends must agree on it."""

Answer = dict[str, Any]
"""One of {"evaluation": ...}, {"profile": ...} and {"error": a class of `core.errors`, "message": ...}."""


class What(StrEnum):
    """What is asked for, by the names of `core.Evaluator`."""

    EVALUATE = "evaluate"
    COMPARE = "compare"
    PROFILE = "profile"


class ProblemText(BaseModel):
    """A problem without its path, which means nothing elsewhere."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    name: str
    source: str
    workload: str
    sizes: dict[str, str]
    """Python literals, since JSON would make lists of tuples."""
    tolerances: dict[str, Tolerance]

    @classmethod
    def of(cls, problem: Problem) -> Self:
        """The problem as text; raises `ProblemError` for one that has no PyTorch reference."""
        problem = TorchProblem.of(problem)
        return cls(
            id=problem.id,
            name=problem.name,
            source=problem.source,
            workload=problem.workload,
            sizes={name: repr(size) for name, size in problem.sizes.items()},
            tolerances=dict(problem.tolerances),
        )

    def problem(self) -> TorchProblem:
        """The problem again; raises `ProblemError` as `TorchProblem` does."""
        sizes = {name: ast.literal_eval(size) for name, size in self.sizes.items()}
        return TorchProblem(
            self.id, self.name, self.source, workload=self.workload, sizes=sizes, tolerances=self.tolerances
        )


class KernelText(BaseModel):
    """A kernel, not bound to any config."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    language: Language
    target: Target
    source: str
    name: str

    @classmethod
    def of(cls, kernel: Kernel) -> Self:
        """The kernel as text."""
        return cls(language=kernel.language, target=kernel.target, source=kernel.source, name=kernel.name)

    def kernel(self) -> Kernel:
        """The kernel again."""
        return PythonKernel(self.language, self.target, self.source, self.name)


class Payload(BaseModel):
    """One question to an evaluator."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1] = VERSION
    what: What
    problem: ProblemText
    kernel: KernelText | None = None
    """None to profile, which is about the problem alone."""
    configs: tuple[dict[str, Value], ...] = ()
    known: tuple[Evaluation, ...] = ()
    """Evaluations of this kernel, cut down by `outlines` to what a search needs of them."""
    settings: Settings

    @classmethod
    def asking(
        cls,
        what: What,
        problem: Problem,
        settings: Settings,
        kernel: Kernel | None = None,
        configs: Iterable[Config] = (),
        known: Iterable[Evaluation] = (),
    ) -> Self:
        """The question as it travels."""
        return cls(
            what=what,
            problem=ProblemText.of(problem),
            kernel=None if kernel is None else KernelText.of(kernel),
            configs=tuple(dict(config) for config in configs),
            known=tuple(known),
            settings=settings,
        )


def outlines(evaluations: Iterable[Evaluation]) -> list[Evaluation]:
    """What a search needs of earlier evaluations: which code was measured, and how fast it was.

    Logs and samples stay here: a search sends what it knows with every question.
    """
    return [
        Evaluation(
            status=one.status,
            kernel_digest=one.kernel_digest,
            config=one.config,
            message=one.message,
            correctness=one.correctness,
            measurement=Measurement(samples_ms=(one.latency_ms,)) if one.latency_ms is not None else None,
            code_digest=one.code_digest,
            rejection=one.rejection,
        )
        for one in evaluations
        if one.code_digest is not None and one.duplicate_of is None
    ]


def failure(error: KernelwrightError) -> Answer:
    """A user's mistake that was found on the other machine."""
    return {"error": type(error).__name__, "message": str(error)}


def read_evaluations(answers: Sequence[Answer]) -> list[Evaluation]:
    """The evaluations among the answers; raises the user's mistake if they end with one."""
    return [Evaluation.model_validate(answer["evaluation"]) for answer in map(_told, answers)]


def read_profile(answers: Sequence[Answer]) -> Profile:
    """The one profile that was asked for; raises like `read_evaluations`."""
    (answer,) = map(_told, answers)
    return Profile.model_validate(answer["profile"])


def _told(answer: Answer) -> Mapping[str, Any]:
    if "error" not in answer:
        return answer
    kind = getattr(user_errors, answer["error"], None)
    if not (isinstance(kind, type) and issubclass(kind, KernelwrightError)):
        kind = DeviceError
    raise kind(answer["message"])


ANSWERS: TypeAdapter[list[Answer]] = TypeAdapter(list[Answer])
"""For answers that travel as text."""
