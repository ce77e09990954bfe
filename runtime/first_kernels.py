"""First kernels: the start of `optimize` for problems without a kernel.

On a GPU torch.compile's code and structures give several (`starts_for`), screened side by side. A language model, if
there is one, writes another. The fastest kernel is the start, or a correct one if none is timed; a beam with room
expands the second best too.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from ..agent.proposer import NoKernelError, RunEndedError
from ..core import (
    Config,
    Evaluation,
    JointProblem,
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
from ..evaluators.settings import AllowTorch, Lowering, SearchSettings
from .devices import CPU
from .jobs import at_workload, choose_backend
from .options.groups import Backend, ProblemOptions

if TYPE_CHECKING:
    from ..agent.program.first_kernel import FirstKernelWriter

ATTEMPTS = 3
"""Maximum number of kernels that a model writes until one is correct."""
_FASTER = 0.95
"""Share of the time of structures; a model's kernel at or below it does something that they lack."""
INSTEAD = "write a kernel file for it (`kernelwright docs kernels`), and name that"
Writing = contextlib.AbstractContextManager["FirstKernelWriter"]


Variants = list[PythonKernel] | str  # or why there are none
Timed = tuple[PythonKernel, float | None]  # its milliseconds in a quick evaluation, where there was one
STRUCTURES = "a cover by structures"
"""The name of a start, which a model sees as a worked example."""


@dataclass(frozen=True)
class Start:
    """One way to make a first kernel, with a description of its maker."""

    name: str
    make: Callable[[], Variants]


@dataclass(frozen=True)
class OpenProblem:
    """A problem without a kernel, and the backend of its first one."""

    problem: TorchProblem
    backend: str
    device: str


def open_problem(options: ProblemOptions, reference: str, device: str, model: bool) -> OpenProblem | None:
    """Return the problem that a reference names, at the requested sizes, if there is no kernel for it; otherwise None.

    `model` says whether a language model can write a kernel. Raises `KernelError` for a reference that names neither
    kernel nor problem, and `OptionError` if no first kernel can be made.
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
    task: OpenProblem, evaluator: LocalEvaluator, writing: Writing | None, path: Path, resume: bool, emit: Emit
) -> list[Kernel]:
    """Make the two best first kernels of a problem, the fastest first, and write them; the first one to `path`.

    A resumed run reads them there. `writing` opens a language model's writer. Raises `KernelError` with the reasons if
    there is no kernel.
    """
    second = path.with_stem(f"{path.stem}_2")
    if resume and path.exists():
        return [PythonKernel.parse(item.read_text(), str(item)) for item in (path, second) if item.exists()]
    found: list[tuple[Kernel, Evaluation | None]] = []
    generated = task.device != CPU and task.backend == Backend.TRITON
    structures: Timed | None = None
    reasons: list[str] = []
    if generated:
        made, own = list[list[PythonKernel]](), list[PythonKernel]()
        for start in starts_for(task.problem, evaluator):
            with working(emit, f"{task.problem.id} has no kernel: one is made of {start.name}"):
                variants = start.make()
            if isinstance(variants, str):
                reasons.append(f"{start.name} gives none: {variants}")
                continue
            known = {kernel.digest for kernel in chain.from_iterable(made)}
            made.append([kernel for kernel in variants if kernel.digest not in known])
            own = made[-1] if start.name == STRUCTURES else own
        best = _best_of_each(task.problem, made, evaluator, emit)
        structures = next((item for item in best if item[0] in own), None)
        found += [(kernel, None) for kernel, _ in best]
    trials = path.with_name(f"{path.stem}_trials.jsonl")
    if not resume:
        for earlier in (trials, second):
            earlier.unlink(missing_ok=True)
    if writing is not None:
        with writing as writer, Journal(trials) as journal:
            written = _of_model(task, evaluator, writer, journal, emit, structures)
        if isinstance(written, str):
            reasons.append(f"the model's attempts failed: {written}")
        else:
            found.append(written)
            if generated and (lack := _lack(written[1], structures)):
                emit(Note(lack))
    if not found:
        raise KernelError(f"{task.problem.id} has no {task.backend} kernel, and {'; '.join(reasons)}; {INSTEAD}")
    kernels = [kernel for kernel, _ in found]
    if len(found) > 1 and writing is not None:
        kernels = _fastest_first(task.problem, found, evaluator)
    kernels = kernels[:2]
    # The start comes last: with it, a resumed run knows that all are there.
    for kernel, file in reversed(list(zip(kernels, (path, second), strict=False))):
        write_whole(file, kernel.source, "choose another folder with `results`")
        emit(Note(f"first kernel: {file}"))
    return kernels


def starts_for(problem: TorchProblem, evaluator: LocalEvaluator) -> list[Start]:
    """Return the starts of a problem; those that call torch's library only if that is allowed."""
    from ..agent.first_kernels import variants as of

    code, graph = partial(evaluator.generated_code, problem), partial(evaluator.operator_graph, problem)
    compiled = partial(of.variants_of_code, problem, library=True)
    found = [
        Start("torch.compile with templates", partial(_of_templates, problem, evaluator)),
        Start(STRUCTURES, lambda: of.variants_of_graph(problem, graph())),
        Start("torch.compile with the library", lambda: compiled(code(Lowering.AS_COMPILED))),
        Start("structures around the library", lambda: of.variants_beside_library(problem, graph())),
    ]
    found = found if evaluator.settings.torch_for(problem) is AllowTorch.ALL else found[:2]
    free = isinstance(problem, JointProblem) and problem.free is not None
    return [start for start in found if "structures" in start.name] if free else found


def screened(problem: TorchProblem, kernels: list[PythonKernel], evaluator: LocalEvaluator) -> list[PythonKernel]:
    """Return the kernels that a quick evaluation finds correct, the fastest first."""
    return [kernel for kernel, _ in _timed(problem, kernels, evaluator)]


def _timed(problem: TorchProblem, kernels: list[PythonKernel], evaluator: LocalEvaluator) -> list[Timed]:
    """Return the kernels that a quick evaluation finds correct with their times, the fastest first."""
    quick = evaluator.beside(evaluator.settings.searching(SearchSettings()))
    times = [found.latency_ms for found in quick.screen(problem, kernels)]
    timed = sorted((ms, place) for place, ms in enumerate(times) if ms)
    return [(kernels[place], ms) for ms, place in timed]


def _of_templates(problem: TorchProblem, evaluator: LocalEvaluator) -> Variants:
    """Return variants of the kernel from torch.compile's templates."""
    from ..agent.first_kernels.variants import variants_of_code
    from ..agent.first_kernels.wrapper import CONVOLUTION

    made = variants_of_code(problem, evaluator.generated_code(problem))
    library = evaluator.settings.lowering(problem) is Lowering.LIBRARY
    if isinstance(made, str) or not library or CONVOLUTION not in made[0].source:
        return made
    if best := screened(problem, made, evaluator):
        return best[:1]
    # In other layouts than the reference's the library's convolutions may be less exact.
    other = variants_of_code(problem, evaluator.generated_code(problem, Lowering.LIBRARY_AS_GIVEN))
    return made[:1] if isinstance(other, str) else other[:1]


def _best_of_each(
    problem: TorchProblem, starts: Sequence[list[PythonKernel]], evaluator: LocalEvaluator, emit: Emit
) -> list[Timed]:
    """Return the best variant of each start, the fastest first; the first variant of all if none is correct."""
    every = [kernel for variants in starts for kernel in variants]
    with working(emit, f"{problem.id}: {len(every)} first kernels are screened"):
        ranked: list[Timed] = [(kernel, None) for kernel in every]
        if len(every) > 1:
            ranked = _timed(problem, every, evaluator)
    best = (next((item for item in ranked if item[0] in variants), None) for variants in starts)
    return sorted(filter(None, best), key=ranked.index) or [(kernel, None) for kernel in every[:1]]


def _lack(evaluation: Evaluation, structures: Timed | None) -> str:
    """Return a line about a model's kernel that is faster than those of structures; empty if it is not."""
    own = evaluation.latency_ms
    keep = "kept as a worked example by 'kernelwright corpus add', once a run has improved it"
    if own is None or structures is None:
        return f"structures have no correct kernel for it, the model has: {keep}" if structures is None else ""
    _, ms = structures
    if ms is None or own > _FASTER * ms:
        return ""
    return f"the model found what structures lack: {own:.4g} ms, and theirs take {ms:.4g} ms: {keep}"


def _of_model(
    task: OpenProblem,
    evaluator: LocalEvaluator,
    writer: FirstKernelWriter,
    journal: Journal,
    emit: Emit,
    structures: Timed | None,
) -> tuple[Kernel, Evaluation] | str:
    """Return a model's first correct kernel with its evaluation, or the failure of its last one.

    It sees the kernel of structures. The journal keeps the evaluations, so a resumed run asks the model the same again.
    """
    known = {trial.evaluation.kernel_digest: trial.evaluation for trial in journal.of(Trial)}
    profile, why = evaluator.profile(task.problem), ""
    failed: list[tuple[Kernel | None, Evaluation | str]] = []
    for number in range(1, ATTEMPTS + 1):
        try:
            with working(emit, f"{task.problem.id}: the model writes a first kernel, attempt {number}"):
                kernel = writer.write(task.problem, profile, *of_backend(task.backend), failed, structures)
        except NoKernelError as reason:
            failed.append((None, str(reason)))
            why = str(reason)
            continue
        except RunEndedError as reason:
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
    """Return the timed kernels, the fastest first; if none is timed, the first correct one, or the last one."""
    judged = [(kernel, known or _evaluated(problem, kernel, evaluator)) for kernel, known in found]
    timed = [
        (evaluation.latency_ms, number)
        for number, (_, evaluation) in enumerate(judged)
        if evaluation.latency_ms is not None
    ]
    if not timed:
        return [next((kernel for kernel, evaluation in judged if evaluation.ok), judged[-1][0])]
    return [judged[number][0] for _, number in sorted(timed)]


def _evaluated(problem: TorchProblem, kernel: Kernel, evaluator: LocalEvaluator) -> Evaluation:
    (evaluation,) = evaluator.evaluate(problem, kernel, [Config()])
    return evaluation
