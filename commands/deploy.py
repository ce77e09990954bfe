"""Write a verified result as a PyTorch operator, in a package that needs only torch and the kernel's language.

Exit codes: 0 the package is written, 2 wrong usage, or a result that cannot be deployed.
"""

from __future__ import annotations

import importlib.util
import keyword
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..core import KernelError, OptionError
from ..core.dynamic_size import FreeSize
from ..core.events import Emit, Note, working
from ..core.evidence import RULE
from ..core.language import Target, default_backend
from ..core.text import listed
from ..corpus import find_kernel, find_problem
from ..corpus.backward import backward_problem
from ..deploy.assembling import assembled
from ..deploy.description import require_size, stated_range
from ..deploy.source import MeasuredKernel, common_licence, measured_kernel
from ..deploy.writing import PackageLayout, write
from ..runtime import command, result
from ..runtime.options.option import Options as BaseOptions
from ..runtime.options.option import described, option
from ..runtime.runtime import Runtime
from ..tuners.gemm import ledger

EXAMPLES = (
    "deploy results/level1/1_36_optimized_1.443x_tilelang_cpu.py --name mylib::rms_norm --output rms_norm",
    "deploy small.py large.py --name mylib::linear --serve batch_size=1..8192 --output linear",
)
POSITIONAL = ("results",)
_RESERVED = re.compile(
    "OPERATOR|verify|benchmark|fallbacks|module|checks|dispatch|launch|modules|operators|timing|kernels|reference|"
    "compare|measure|plugin|Path|Tensor|nn|Any|Sequence|SizeCheck|CallTimes|DeployedOperator|OperatorModule|"
    "bool|dict|int|list|str"
)
"""Names that every package has or uses."""
_NAME = re.compile(r"[A-Za-z]\w*::[A-Za-z]\w*")


@dataclass(frozen=True, kw_only=True)
class Options(BaseOptions):
    """Write a verified result as an operator of PyTorch."""

    results: tuple[Path, ...] = field(
        kw_only=False,
        metadata=described(
            "Kernel files of one problem, from optimize or tune, or the folder of tune gemm or optimize --dynamic.",
            metavar="RESULT...",
        ),
    )
    name: str = option("", "The operator's name, mylib::swiglu.", metavar="NAMESPACE::NAME", settable=False)
    output: Path | None = option(None, "The new folder for the package.", metavar="DIR", settable=False)
    serve: str | None = option(
        None,
        "A size of the problem that may have any value of a range, tokens=1..8192; by default only the sizes that the "
        "results were measured at are served by kernels.",
        metavar="SIZE=LOW..HIGH",
    )
    gradients: tuple[Path, ...] = option(
        (), "Kernels that optimize --backward wrote, for the gradients of the results.", metavar="RESULT"
    )
    layout: PackageLayout = option(
        PackageLayout.WHEEL,
        "wheel: for pip, with tests; vllm, sglang: that, as a plug-in which registers the operator in each process of "
        "the engine; kernels: as Hugging Face's package `kernels` loads it.",
    )
    license: str | None = option(
        None, "SPDX expression of the package's licence; by default what the files state.", metavar="SPDX"
    )
    problem: str | None = option(
        None, "The problem that the results solve, if their headers do not say.", metavar="REF", trusted=True
    )
    dataset: Path | None = option(None, "Source of the problems: a KernelBench checkout.", metavar="DIR", trusted=True)

    def check(self) -> None:
        """Raise `OptionError` for an invalid name, and for a folder that exists already."""
        super().check()
        if not self.results:
            raise OptionError("there is nothing to deploy", "name files that optimize or tune wrote")
        short = self.name.partition("::")[2]
        if not _NAME.fullmatch(self.name) or any(map(keyword.iskeyword, self.name.split("::"))):
            raise OptionError(f"`name` {self.name!r} is not an operator's name", "write mylib::swiglu")
        if _RESERVED.fullmatch(short):
            raise OptionError(f"`name`: every package has a {short} already", "choose another name")
        if self.output is None:
            raise OptionError("`output` is missing", "name a new folder for the package")
        if self.output.exists():
            raise OptionError(f"`output` {self.output} exists already", "name a new folder")
        if self.serve is not None:
            FreeSize.of(self.serve, "serve")


@dataclass(frozen=True)
class Plan(command.Plan):
    """The kernels of the operator, and where its package is written."""

    name: str
    kernels: tuple[MeasuredKernel, ...] = field(metadata=command.NOT_SHOWN)
    gradients: tuple[MeasuredKernel, ...] = field(metadata=command.NOT_SHOWN)
    serve: FreeSize | None = field(metadata=command.NOT_SHOWN)
    licence: str
    layout: PackageLayout
    output: Path


class Result(result.Result):
    """A deployed operator."""

    operator: str
    """Name of the operator, as in torch.ops."""
    package: str
    """The name to import."""
    folder: Path
    """The folder to install."""
    layout: PackageLayout
    serves: tuple[str, ...]
    """Device, dtypes and sizes of each kernel; the reference computes all other calls."""
    checks: tuple[str, ...]
    """Comparisons with the reference on this machine; empty if the kernels' device is not here."""

    def lines(self) -> Iterator[str]:
        """The served calls, the checks, and the next step."""
        hub = self.layout is PackageLayout.HUB
        how = f"kernels.get_local_kernel(Path({str(self.folder)!r}))" if hub else f"pip install {self.folder}"
        yield f"{self.operator}: {how}" + ("" if hub else f"; import {self.package}")
        yield from (f"  serves {text}" for text in self.serves)
        yield from (f"  {text}" for text in self.checks)
        if not self.checks:
            yield f"  not checked: its device is not here; call verify() of {self.package} where it is"


def plan(options: Options, runtime: Runtime) -> Plan:
    """Read the results and their problems."""
    assert options.output is not None
    package = options.name.replace("::", "_")
    if importlib.util.find_spec(package) is not None:
        raise OptionError(f"a package {package} is installed already", "choose another `name`")
    kernels = tuple(_read(options, path) for given in options.results for path in _files(given))
    gradients = _gradients(options.gradients, kernels)
    licence = common_licence((*kernels, *gradients), options.license)
    stated = stated_range(kernels)
    if stated is not None and options.serve is not None:
        raise OptionError("the results of `optimize --dynamic` say what they serve", "leave out `serve`")
    serve = FreeSize.of(options.serve, "serve") if options.serve is not None else stated
    if serve is not None:
        require_size(kernels, serve)
    return Plan(options.name, kernels, gradients, serve, licence, options.layout, options.output)


def run(plan: Plan, emit: Emit) -> Result:
    """Write the package."""
    given = (*plan.kernels, *plan.gradients)
    with working(emit, f"tracing {', '.join(str(item.path) for item in given)}"):
        deployment = assembled(
            plan.name, plan.kernels, serve=plan.serve, licence=plan.licence or None, gradients=plan.gradients,
            layout=plan.layout,
        )  # fmt: skip
    entries = (*deployment.entries, *deployment.gradients)
    for item in given:
        if item not in [entry.measured for entry in entries]:
            emit(Note(f"{item.path} is left out: another result serves the sizes nearest to it, or none does"))
    with working(emit, f"checking {deployment.package}"):
        checks = write(deployment, plan.output)
    return Result(
        operator=plan.name,
        package=deployment.package,
        folder=plan.output,
        layout=plan.layout,
        serves=tuple(entry.in_words for entry in entries),
        checks=tuple(checks),
    )


def _files(given: Path) -> list[Path]:
    """Return the kernels of a folder of `tune gemm`, one a shape, or of `optimize --dynamic`; a file as it is."""
    if not given.is_dir():
        return [given]
    found = sorted(given.glob(f"*/{ledger.KERNEL}")) if (given / ledger.FILE).is_file() else []
    if (given / RULE).is_file():
        found = sorted(given.glob("*.py"))
    if not found:
        raise KernelError(
            f"{given} is no folder of `tune gemm` or `optimize --dynamic` with timed kernels; name the kernel file of "
            "a result"
        )
    return found


def _read(options: Options, path: Path) -> MeasuredKernel:
    if not path.is_file():
        raise KernelError(f"there is no file {path}; name a kernel file that optimize or tune wrote")
    file = find_kernel(str(path), default_backend(Target.CPU))
    problem = find_problem(options.problem or file.problem, options.dataset).read()
    return measured_kernel(path, file.read(), problem)


def _gradients(paths: Sequence[Path], kernels: Sequence[MeasuredKernel]) -> tuple[MeasuredKernel, ...]:
    """Read kernels of gradients, each for the problem of one of the results at its sizes."""
    if not paths:
        return ()
    problems = {problem.name: problem for problem in (backward_problem(item.problem) for item in kernels)}
    found = []
    for path in paths:
        file = find_kernel(str(path), default_backend(Target.CPU))
        if file.problem not in problems:
            raise KernelError(
                f"{path} solves {file.problem}, not the gradients of the results at their sizes, "
                f"{listed(problems, 'or')}; run optimize --backward at the same workload, with this torch"
            )
        found.append(measured_kernel(path, file.read(), problems[file.problem]))
    return tuple(found)
