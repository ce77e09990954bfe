"""Make a kernel faster over several turns, and write the fastest one that is verified.

Exit codes: 0 finished with a faster kernel, 1 failed, 2 wrong usage, 3 nothing faster was found, 75 waiting for a
reply (--no-wait).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ..core import OptionError, Target
from ..core.dynamic_size import FreeSize
from ..core.events import Emit, Note, PartDone
from ..core.files import write_whole
from ..corpus import find_problem
from ..corpus.backward import backward_problem
from ..runtime import command
from ..runtime.jobs import at_workload
from ..runtime.options.groups import WHERE, ReturnOptions, RunOptions
from ..runtime.options.option import described, option
from ..runtime.runtime import Runtime
from ._optimize import open_optimizer
from ._optimize.by_size import in_range
from ._optimize.result import Result as Result
from ._optimize.settings import SessionSettings

if TYPE_CHECKING:
    from ._optimize.kernel_optimizer import KernelOptimizer

EXAMPLES = (
    "optimize level1/1_94.py --target-speedup 1.3",
    "optimize --list-slow --dataset ~/KernelBench",
    "optimize --problem model.py --device cuda",
    "optimize --problem model.py --backward --device cuda",
    "optimize --recorded recorded --time-limit 1800",
    "optimize --problem model.py --dynamic tokens=1..8192 --device cuda",
    "optimize ops.py::swiglu --reference ops.py::swiglu_torch --inputs bench.py::inputs --patch out.diff",
    "optimize 2_10 --model openai/o3 --beam 2 --max-cost 3",
)
VERBOSE = True
ALSO = ("list_slow", ("threshold", "folder", "recorded", "again"))
AGENTS = ("kernel", "target_speedup", "max_iterations", "problem", "workload", "backend", "reference", "inputs")


@dataclass(frozen=True, kw_only=True)
class Options(RunOptions, ReturnOptions):
    """Make one kernel faster over several turns."""

    kernel: str = field(
        default="",
        kw_only=False,
        metadata=described(
            "The kernel: a path, level2/2_10.py, 2_10, a Solution, or a function FILE::NAME. On a GPU also a problem "
            "without a kernel: the first one is generated from torch.compile's code.",
            metavar="REF",
            trusted=True,
            argument=True,
        ),
    )

    backward: bool = option(
        False, "Optimize the gradients of `problem` in its place: its backward graph, written as a problem.", WHERE
    )

    dynamic: str | None = option(
        None,
        "A size of the problem, or of a function's inputs, that is free within a range, tokens=1..8192: kernels get it "
        "as an argument and are timed at several values; few configs, and the rule that chooses among them, are "
        "written.",
        WHERE,
        metavar="SIZE=LOW..HIGH",
    )

    @property
    def named(self) -> str:
        """The kernel, or the problem if there is none."""
        return self.kernel or self.problem or ""

    def check(self) -> None:
        """Raise `OptionError` if no kernel or problem is named."""
        super().check()
        if not self.named:
            raise OptionError("nothing to optimize is named", "give `kernel`, or `problem` with a PyTorch module")
        if self.dynamic is not None:
            free = FreeSize.of(self.dynamic, "dynamic")
            if free.low == free.high:
                raise OptionError(f"`dynamic` {self.dynamic!r} is one size", "write tokens=1..8192")
            if self.backward or self.remote is not None:
                other = "`backward`" if self.backward else "`evaluator`"
                raise OptionError(f"`dynamic` does not go together with {other}", "leave one of them out")
        if self.backward and self.problem is None:
            raise OptionError("`backward` needs a `problem`", "name the module whose gradients are to be optimized")


@dataclass(frozen=True)
class Plan(command.Plan):
    """A run, and the folder of its files."""

    kernel: str
    """The kernel, or the problem if there is none."""
    device: str
    where: str
    """The machines that evaluate; '' for this one."""
    target_speedup: float | None
    against: str
    results: Path
    resume: bool
    save: bool
    open_optimizer: Callable[[Emit], AbstractContextManager[KernelOptimizer]] = field(metadata=command.NOT_SHOWN)


def plan(options: Options, runtime: Runtime) -> Plan:
    """Choose the machines. The optimizer finds the kernel, or makes a first one."""
    if options.backward:
        options = _of_gradients(options, runtime)
    settings = SessionSettings.of(options, runtime)
    if options.dynamic is not None:
        settings = in_range(settings, FreeSize.of(options.dynamic, "dynamic"))
    return Plan.of(
        options,
        kernel=options.named,
        device=settings.device,
        where=runtime.where,
        against=settings.criteria.against,
        open_optimizer=partial(open_optimizer, settings),
    )


def _of_gradients(options: Options, runtime: Runtime) -> Options:
    """Write the gradients of the problem as a problem, and return the options for that one."""
    device = runtime.device(options) if options.remote is None else str(Target.CUDA)
    forward = find_problem(options.problem or "", options.dataset).read()
    problem = backward_problem(at_workload(forward, Target.of_device(device), device, options.workload))
    path = options.results / "backward" / f"{problem.name}.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, problem.source)
    runtime.emit(Note(f"gradients of {forward.id}: {path}"))
    return replace(options, problem=str(path), workload=None, backward=False)


def run(plan: Plan, emit: Emit) -> Result:
    """Optimize one kernel."""
    with plan.open_optimizer(emit) as optimizer:
        result = optimizer.optimize(optimizer.job(plan.kernel))
    emit(PartDone(result))
    return result
