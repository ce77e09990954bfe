"""First kernels: what `optimize` begins with where a problem has none.

One is made of torch.compile's Triton code, on a GPU; a language model, where there is one, writes another. The faster
correct one is the start, the other one is expanded beside it where the beam has room.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..agent.proposer import NoKernel, RunEnded
from ..core import (
    Config,
    Evaluation,
    Journal,
    Kernel,
    KernelError,
    OptionError,
    ProblemError,
    PythonKernel,
    TorchProblem,
    Trial,
)
from ..core.events import Emit, Note, working
from ..core.files import write_whole
from ..core.language import of_backend
from ..core.text import first_line
from ..corpus import find_kernel, find_problem
from ..corpus.functions.target import is_function
from ..evaluators.local import LocalEvaluator
from ..evaluators.settings import Convolutions, SearchSettings
from .devices import CPU
from .jobs import at_workload, choose_backend
from .options.groups import Backend, ProblemOptions

if TYPE_CHECKING:
    from ..agent.program.first_kernel import FirstKernelWriter

ATTEMPTS = 3
"""Kernels that a model writes until one is correct."""
INSTEAD = "write a kernel file for it (docs/kernels.md), and name that"
Writing = contextlib.AbstractContextManager["FirstKernelWriter"]


@dataclass(frozen=True)
class OpenProblem:
    """A problem without a kernel, and the backend of its first one."""

    problem: TorchProblem
    backend: str
    device: str


def open_problem(options: ProblemOptions, reference: str, device: str, model: bool) -> OpenProblem | None:
    """Return the problem that a reference names, at the requested sizes, where there is no kernel for it; else None.

    `model` says whether a language model can write a kernel. Raises `KernelError` for a reference that names neither
    kernel nor problem, and `OptionError` where no first kernel can be made.
    """
    if is_function(reference):
        return None
    try:
        find_kernel(reference, choose_backend(options, device), options.dataset)
        return None
    except KernelError as missing:
        try:
            problem = find_problem(options.problem or reference, options.dataset).read()
        except ProblemError as unknown:
            raise unknown if reference == options.problem else missing from None
    backend = options.backend or (choose_backend(options, device) if device == CPU else Backend.TRITON)
    _, target = of_backend(backend)
    if not model and (device == CPU or backend != Backend.TRITON):
        raise OptionError(
            f"{problem.id} has no {backend} kernel, and a first one is made of torch.compile's Triton code for a GPU, "
            "or written by a language model",
            f"name one with `model`, or {INSTEAD}",
        )
    return OpenProblem(at_workload(problem, target, device, options.workload), str(backend), device)


def first_kernels_of(
    task: OpenProblem,
    evaluator: LocalEvaluator,
    writing: Writing | None,
    path: Path,
    resume: bool,
    emit: Emit,
) -> list[Kernel]:
    """Make the first kernels of a problem, the fastest first, and write them beside each other; the first to `path`.

    A resumed run reads them there. `writing` opens a language model's writer. Raises `KernelError`, with the reasons,
    where no kernel comes of it.
    """
    second = path.with_stem(f"{path.stem}_2")
    if resume and path.exists():
        return [PythonKernel.parse(item.read_text(), str(item)) for item in (path, second) if item.exists()]
    found: list[tuple[Kernel, Evaluation | None]] = []
    reasons: list[str] = []
    if task.device != CPU and task.backend == Backend.TRITON:
        kernel = _of_compiler(task.problem, evaluator, emit)
        if isinstance(kernel, str):
            reasons.append(f"torch.compile's code gives none: {kernel}")
        else:
            found.append((kernel, None))
    trials = path.with_name(f"{path.stem}_trials.jsonl")
    if not resume:
        for earlier in (trials, second):
            earlier.unlink(missing_ok=True)
    if writing is not None:
        with writing as writer, Journal(trials) as journal:
            written = _of_model(task, evaluator, writer, journal, emit)
        if isinstance(written, str):
            reasons.append(f"the model's attempts failed: {written}")
        else:
            found.append(written)
    if not found:
        raise KernelError(f"{task.problem.id} has no {task.backend} kernel, and {'; '.join(reasons)}; {INSTEAD}")
    kernels = [found[0][0]] if len(found) == 1 else _fastest_first(task.problem, found, evaluator)
    # The start comes last: with it, a resumed run knows that all are there.
    for kernel, file in reversed(list(zip(kernels, (path, second), strict=False))):
        write_whole(file, kernel.source, "choose another folder with `results`")
        emit(Note(f"first kernel: {file}"))
    return kernels


def _of_compiler(problem: TorchProblem, evaluator: LocalEvaluator, emit: Emit) -> Kernel | str:
    """Return a kernel made of torch.compile's code, or why there is none."""
    from ..agent.first_kernels.wrapper import CONVOLUTION

    with working(emit, f"{problem.id} has no kernel: torch.compile writes one"):
        convolutions = evaluator.settings.convolutions
        kernel = _made(problem, evaluator, convolutions)
        if isinstance(kernel, str):
            return kernel
        computed_by_library = convolutions is Convolutions.LIBRARY and CONVOLUTION in kernel.source
        variants = [kernel, *_on_tensor_cores(kernel)]
        if len(variants) == 1 and not computed_by_library:
            return kernel
        best = _fastest_correct(problem, variants, evaluator)
        if best is None and computed_by_library:
            # In other layouts than the reference's the library's convolutions may be less exact.
            other = _made(problem, evaluator, Convolutions.LIBRARY_AS_GIVEN)
            return kernel if isinstance(other, str) else other
        return best or kernel


def _made(problem: TorchProblem, evaluator: LocalEvaluator, convolutions: Convolutions) -> PythonKernel | str:
    """Return the kernel of the compiler's code with such convolutions, or why there is none."""
    from ..agent.first_kernels.from_inductor import first_kernel
    from ..agent.first_kernels.obstacle import Obstacle

    code = evaluator.generated_code(problem, convolutions)
    if isinstance(code, str):
        return code
    try:
        return first_kernel(problem, code)
    except Obstacle as obstacle:
        return str(obstacle)


def _on_tensor_cores(kernel: PythonKernel) -> list[PythonKernel]:
    """Return the kernel with products of fp32 from several on tensor cores, where it has any.

    IEEE products in Triton take twice the time of those of torch's library, on an H200.
    """
    from ..agent.rules import Machine, NotApplicable
    from ..agent.rules.triton.split_precision import another_precision

    try:
        return [another_precision().apply(kernel, Machine(cores=1)).kernel]
    except NotApplicable:
        return []


def _fastest_correct(
    problem: TorchProblem, variants: Sequence[PythonKernel], evaluator: LocalEvaluator
) -> PythonKernel | None:
    """Return the variant that is correct and the fastest in a quick evaluation; None where none is correct."""
    quick = evaluator.beside(evaluator.settings.searching(SearchSettings()))
    seen = zip(variants, quick.screen(problem, variants), strict=True)
    times = [(one.latency_ms, number) for number, (_, one) in enumerate(seen) if one.latency_ms is not None]
    return variants[min(times)[1]] if times else None


def _of_model(
    task: OpenProblem, evaluator: LocalEvaluator, writer: FirstKernelWriter, journal: Journal, emit: Emit
) -> tuple[Kernel, Evaluation] | str:
    """Return the first correct kernel of a model's, with its evaluation, or how the last one failed.

    The journal keeps the evaluations: after a resumption the model is asked the same again.
    """
    known = {trial.evaluation.kernel_digest: trial.evaluation for trial in journal.of(Trial)}
    profile, why = evaluator.profile(task.problem), ""
    failed: list[tuple[Kernel | None, Evaluation | str]] = []
    for number in range(1, ATTEMPTS + 1):
        try:
            with working(emit, f"{task.problem.id}: the model writes a first kernel, attempt {number}"):
                kernel = writer.write(task.problem, profile, *of_backend(task.backend), failed)
        except NoKernel as reason:
            failed.append((None, str(reason)))
            why = str(reason)
            continue
        except RunEnded as reason:
            return str(reason)
        evaluation = known.get(kernel.digest) or _evaluated(task.problem, kernel, evaluator)
        if kernel.digest not in known:
            journal.append(Trial(origin="first kernel", evaluation=evaluation, seconds=sum(evaluation.stages.values())))
        if evaluation.ok:
            return kernel, evaluation
        failed.append((kernel, evaluation))
        why = f"{evaluation.status}: {first_line(evaluation.message)}"
        emit(Note(f"the model's first kernel, attempt {number}: {why}"))
    return why


def _fastest_first(
    problem: TorchProblem, found: list[tuple[Kernel, Evaluation | None]], evaluator: LocalEvaluator
) -> list[Kernel]:
    """Return the timed ones of the kernels; the last alone, which is known to be correct, where none is timed."""
    judged = [(kernel, known or _evaluated(problem, kernel, evaluator)) for kernel, known in found]
    timed = [(one.latency_ms, number) for number, (_, one) in enumerate(judged) if one.latency_ms is not None]
    return [judged[number][0] for _, number in sorted(timed)] or [judged[-1][0]]


def _evaluated(problem: TorchProblem, kernel: Kernel, evaluator: LocalEvaluator) -> Evaluation:
    (evaluation,) = evaluator.evaluate(problem, kernel, [Config()])
    return evaluation
