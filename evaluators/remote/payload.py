"""The messages to another machine and back: plain JSON that contains nothing of this machine but the request.

A payload contains texts, configs and settings: no key, no environment variable but those that the user names for a
package, and no path but those of a package that must be there, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, TypeAdapter

from ...core import (
    Config,
    DeviceError,
    Evaluation,
    Kernel,
    KernelwrightError,
    Problem,
    ProblemError,
    Profile,
    PythonKernel,
    Target,
    Tolerance,
    TorchProblem,
    find_language,
)
from ...core import errors as user_errors
from ...core.measurement import Measurement
from ...core.space import Value
from ...core.syntax_tree import literal
from ...core.user_package import UserModule, UserPackage, read_module
from ..settings import Settings

VERSION: Literal[1] = 1
"""Version of the payload's form; both ends must agree."""

Response = dict[str, Any]
"""One of {"evaluation": ...}, {"profile": ...} and {"error": a class of `core.errors`, "message": ...}."""


class What(StrEnum):
    """The kinds of request, named like the methods of `core.Evaluator`."""

    EVALUATE = "evaluate"
    COMPARE = "compare"
    CONTEST = "contest"
    PROFILE = "profile"


class ProblemText(BaseModel):
    """A problem without its path, which has no meaning on another machine."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    name: str
    source: str
    workload: str
    sizes: dict[str, str]
    """Python literals, since JSON would turn tuples into lists."""
    tolerances: dict[str, Tolerance]
    package: dict[str, Any] | None = None
    """Import paths of a user's package, which must exist there, too."""

    @classmethod
    def of(cls, problem: Problem) -> Self:
        """Return the problem as text; raises `ProblemError` for one without a PyTorch reference, or with files."""
        problem = TorchProblem.of(problem)
        if files := problem.files_at(problem.sizes):
            raise ProblemError(
                f"problem {problem.id} reads {next(iter(files.values()))}, which other machines do not have; evaluate "
                "it on this machine, or choose a workload with random inputs"
            )
        return cls(
            id=problem.id,
            name=problem.name,
            source=problem.source,
            workload=problem.workload,
            sizes={name: repr(size) for name, size in problem.sizes.items()},
            tolerances=dict(problem.tolerances),
            package=_package_text(problem.package),
        )

    def problem(self) -> TorchProblem:
        """Return the parsed problem; raises `ProblemError` as `TorchProblem` does."""
        sizes = {name: literal(size) for name, size in self.sizes.items()}
        return TorchProblem(
            self.id,
            self.name,
            self.source,
            package=_package(self.id, self.package),
            workload=self.workload,
            sizes=sizes,
            tolerances=self.tolerances,
        )


def _package_text(package: UserPackage | None) -> dict[str, Any] | None:
    if package is None:
        return None
    return {
        "tops": {name: str(path) for name, path in package.tops.items()},
        "modules": [[item.name, str(item.path), item.text] for item in package.modules],
        "call": package.call,
        "patched": package.patched,
        "environment": dict(package.environment),
    }


def _package(problem: str, found: Mapping[str, Any] | None) -> UserPackage | None:
    """Return the package of a problem; raises `ProblemError` where this machine does not have it."""
    if found is None:
        return None
    if missing := [path for path in found["tops"].values() if not Path(path).exists()]:
        raise ProblemError(
            f"{problem} is a function of a package, and {missing[0]} is not on the machine that evaluates it; "
            "install the package there at the same path, or evaluate on this machine"
        )
    for _, path, text in [] if found.get("patched") else found["modules"]:
        if not Path(path).is_file() or read_module(Path(path)) != text:
            raise ProblemError(
                f"{problem} is a function of a package, and {path} on the machine that evaluates it is not the file of "
                "this machine; install the same version there, or run again if the file has just changed"
            )
    return UserPackage(
        tops={name: Path(path) for name, path in found["tops"].items()},
        modules=tuple(UserModule(name, Path(path), text) for name, path, text in found["modules"]),
        call=found["call"],
        patched=found.get("patched", False),
        environment=found.get("environment", {}),
    )


class KernelText(BaseModel):
    """A kernel, not bound to any config."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    language: str
    target: Target
    source: str
    name: str

    @classmethod
    def of(cls, kernel: Kernel) -> Self:
        """Return the kernel as text."""
        return cls(language=kernel.language.id, target=kernel.target, source=kernel.source, name=kernel.name)

    def kernel(self) -> Kernel:
        """Return the kernel."""
        return PythonKernel(find_language(self.language), self.target, self.source, self.name)


class Payload(BaseModel):
    """One request to an evaluator."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1] = VERSION
    what: What
    problem: ProblemText
    kernel: KernelText | None = None
    """None for a profile, which needs the problem only, and for a contest."""
    kernels: tuple[KernelText, ...] = ()
    """Kernels of a contest."""
    configs: tuple[dict[str, Value], ...] = ()
    known: tuple[Evaluation, ...] = ()
    """Evaluations of this kernel, reduced by `outlines` to what a search needs."""
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
        kernels: Iterable[Kernel] = (),
    ) -> Self:
        """Return the request as a payload."""
        return cls(
            what=what,
            problem=ProblemText.of(problem),
            kernel=None if kernel is None else KernelText.of(kernel),
            kernels=tuple(map(KernelText.of, kernels)),
            configs=tuple(dict(config) for config in configs),
            known=tuple(known),
            settings=settings,
        )


def outlines(evaluations: Iterable[Evaluation]) -> list[Evaluation]:
    """Reduce earlier evaluations to what a search needs: which code was measured, and how fast it was.

    Logs and samples stay here, since a search sends these with every request.
    """
    return [
        Evaluation(
            status=evaluation.status,
            kernel_digest=evaluation.kernel_digest,
            config=evaluation.config,
            origin=evaluation.origin,
            message=evaluation.message,
            correctness=evaluation.correctness,
            measurement=Measurement(samples_ms=(evaluation.latency_ms,)) if evaluation.latency_ms is not None else None,
            code_digest=evaluation.code_digest,
            rejection=evaluation.rejection,
        )
        for evaluation in evaluations
        if evaluation.code_digest is not None and evaluation.duplicate_of is None
    ]


def failure(error: KernelwrightError) -> Response:
    """Return a user's mistake, found on the other machine, as a response."""
    return {"error": type(error).__name__, "message": str(error)}


def read_evaluations(responses: Sequence[Response]) -> list[Evaluation]:
    """Return the evaluations among the responses; raises the user's mistake if they end with one."""
    return [Evaluation.model_validate(response["evaluation"]) for response in map(_result_of, responses)]


def read_profile(responses: Sequence[Response]) -> Profile:
    """Return the one requested profile; raises like `read_evaluations`."""
    (response,) = map(_result_of, responses)
    return Profile.model_validate(response["profile"])


def _result_of(response: Response) -> Mapping[str, Any]:
    if "error" not in response:
        return response
    kind = getattr(user_errors, response["error"], None)
    if not (isinstance(kind, type) and issubclass(kind, KernelwrightError)):
        kind = DeviceError
    raise kind(response["message"])


RESPONSES: TypeAdapter[list[Response]] = TypeAdapter(list[Response])
"""For responses that travel as text."""
