"""Kernel files: one folder per backend, named after the problem that they solve."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from pathlib import Path

from ..core import KernelError, ProblemError, PythonKernel
from .names import is_file, is_folder, nearest, parse_id
from .problems import find_problem, list_operators, list_problems
from .recorded import SolutionFile, find_solution, names_solution

SHIPPED = Path(__file__).parent / "kernels"
ATTENTION_KERNEL = SHIPPED / "tilelang" / "attention" / "attention.py"
"""The scheduled kernel of the attention problem, which belongs to no level of KernelBench."""
_HEADER = re.compile(r"^Problem Name:\s*(\S+)", re.MULTILINE)
SHIPPED_KERNELS = "`kernelwright list` shows the shipped kernels"
"""A hint in messages."""


@dataclass(frozen=True)
class KernelFile:
    """The path of a kernel, and the reference of its problem."""

    path: Path
    problem: str

    def read(self) -> PythonKernel:
        """Parse the file; raises `KernelError` when it contains no kernel."""
        return PythonKernel.parse(_read(self.path), name=str(self.path))


def list_kernels(backend: str) -> list[KernelFile]:
    """Return the shipped kernels of a backend, by level and number."""
    files = []
    for path in (SHIPPED / backend).glob("level*/*.py"):
        if identity := parse_id(f"{path.parent.name}/{path.name}"):
            files.append(KernelFile(path, identity))
    return sorted(files, key=lambda file: [int(n) for n in re.findall(r"\d+", file.problem)])


def list_operator_kernels(backend: str) -> list[KernelFile]:
    """Return a backend's shipped kernels of engines' operators, which belong to no level of KernelBench, by name."""
    paths = {problem: SHIPPED / backend / f"{problem}.py" for problem in list_operators()}
    return [KernelFile(path, problem) for problem, path in paths.items() if path.exists()]


def list_kernel_files(folder: Path) -> list[Path]:
    """Return the files below a folder that define `ModelNew`, by path; raises `KernelError` for no folder."""
    if not folder.is_dir():
        raise KernelError(f"there is no folder {folder}; name one with kernel files")
    found = [path for path in sorted(folder.rglob("*.py")) if not any(part.startswith(".") for part in path.parts)]
    return [path for path in found if "class ModelNew" in path.read_text(errors="replace")]


def find_kernel(reference: str, backend: str, dataset: Path | None = None) -> KernelFile | SolutionFile:
    """Return the kernel for a path, an id or a KernelBench file name, for a backend.

    A path to a problem file stands for the shipped kernel of that problem. In a dataset of recorded workloads, see
    `find_solution`. Raises `KernelError`, which names the nearest kernels, when there is none.
    """
    if dataset is not None and names_solution(reference, dataset):
        return find_solution(reference, backend, dataset)
    path, is_problem = Path(reference), False
    if is_file(path):
        source = _read(path)
        if "class ModelNew" in source or "class Model" not in source:
            return KernelFile(path, _problem_of(path, source))
        reference, is_problem = path.name, True
    if operator := next((file for file in list_operator_kernels(backend) if file.problem == reference), None):
        return operator
    available = {file.problem: file for file in list_kernels(backend)}
    identity = parse_id(reference)
    if identity is None:
        with contextlib.suppress(ProblemError):
            identity = find_problem(reference, dataset).id
    if identity in available:
        return available[identity]
    if is_folder(path):
        raise KernelError(
            f"{path} is a folder; name one of its kernels: `kernelwright list-slow --folder {path}` shows them"
        )
    if is_problem:
        raise KernelError(
            f"{path} has a class Model and no ModelNew, so it is a problem, and there is no {backend} kernel of that "
            "name; call the class of a kernel ModelNew and name its problem with `problem`, or name a function of the "
            f"file: {path.name}::NAME"
        )
    known = [*available, *(problem.name for problem in list_problems() if problem.id in available)]
    if path.suffix == ".py" and identity is None:
        raise KernelError(f"{reference}: no such file{nearest(reference, known)}; {SHIPPED_KERNELS}")
    raise KernelError(f"no {backend} kernel {reference!r}{nearest(reference, known)}; {SHIPPED_KERNELS}")


def _problem_of(path: Path, source: str) -> str:
    """Return the problem that a kernel file solves: from its header, otherwise from its name."""
    header = _HEADER.search(source)
    if header:
        return header[1]
    identity = parse_id(f"{path.resolve().parent.name}/{path.name}")
    return identity or path.stem


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise KernelError(f"cannot read kernel {path}: {error}") from None
