"""Problem files: the shipped ones, those of a KernelBench checkout, or the Definitions of recorded workloads."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from ..core import ProblemError, TorchProblem
from .names import is_file, kernelbench_number, nearest, parse_id, problem_id
from .recorded import DefinitionFile, is_trace_dataset, list_definitions

SHIPPED = Path(__file__).parent / "problems"
ATTENTION = SHIPPED / "attention" / "attention.py"
"""Belongs to no level of KernelBench, as the operators of engines."""
DECODING = "attention/decoding"
"""Id of the problem of decoding."""
_DATASETS = "give a KernelBench checkout, or a flashinfer-trace dataset, which has a folder definitions"


@dataclass(frozen=True)
class ProblemFile:
    """The id and path of a problem."""

    id: str
    name: str
    path: Path

    def read(self) -> TorchProblem:
        """Parse the file; raises `ProblemError` when it contains no problem."""
        try:
            source = self.path.read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise ProblemError(f"cannot read problem {self.path}: {error}") from None
        return TorchProblem(id=self.id, name=self.name, source=source, path=str(self.path))


def list_problems(dataset: Path | None = None) -> list[ProblemFile] | list[DefinitionFile]:
    """Return all problems of a dataset folder (default: the shipped ones), by level and number, or by name.

    A dataset is a KernelBench checkout with `level*/` at its root or in its folder KernelBench, or one of recorded
    workloads.
    """
    if dataset is not None and is_trace_dataset(dataset):
        return list_definitions(dataset)
    root = SHIPPED if dataset is None else _levels_of(dataset)
    found = []
    for level in root.glob("level*"):
        number_of_level = re.fullmatch(r"level(\d+)", level.name)
        for path in level.glob("*.py") if number_of_level else ():
            number = kernelbench_number(path.stem)
            if number and number_of_level:
                identity = problem_id(number_of_level[1], number)
                found.append((int(number_of_level[1]), int(number), ProblemFile(identity, path.stem, path)))
    return [problem for _, _, problem in sorted(found, key=lambda item: item[:2])]


def list_operators() -> list[str]:
    """Return the ids of the shipped operators of engines, which belong to no level of KernelBench: 'gemm/gemm', ..."""
    return [DECODING, *sorted(f"gemm/{path.stem}" for path in (SHIPPED / "gemm").glob("*.py"))]


def find_problem(reference: str, dataset: Path | None = None) -> ProblemFile | DefinitionFile:
    """Return the problem for a path, an id or a KernelBench file name.

    Raises `ProblemError`, which names the nearest problems, when there is none.
    """
    path = Path(reference)
    if is_file(path):
        number = kernelbench_number(path.stem)
        level = re.fullmatch(r"level(\d+)", path.resolve().parent.name)
        identity = problem_id(level[1], number) if number and level else path.stem
        return ProblemFile(identity, path.stem, path)
    for identity in list_operators():
        if reference in (identity, identity.split("/")[1]):
            return ProblemFile(identity, identity.split("/")[1], SHIPPED / f"{identity}.py")
    if reference == ATTENTION.stem:
        return ProblemFile(reference, reference, ATTENTION)
    problems = list_problems(dataset)
    wanted = parse_id(reference)
    stem = path.name.removesuffix(".py")
    for problem in problems:
        if problem.id == wanted or problem.name == stem or problem.name.rstrip("_") == stem.rstrip("_"):
            return problem
    known = [problem.id for problem in problems] + [problem.name for problem in problems]
    where = f" in {dataset}" if dataset else ""
    raise ProblemError(
        f"no problem {reference!r}{where}{nearest(reference, known)}; --problem 1_19, or a path, names the one to solve"
    )


def _levels_of(dataset: Path) -> Path:
    try:
        for root in (dataset, dataset / "KernelBench"):
            if (root == dataset or root.is_dir()) and any(
                re.fullmatch(r"level\d+", entry.name) for entry in root.iterdir()
            ):
                return root
    except OSError as error:
        raise ProblemError(f"cannot read dataset {dataset}: {error.strerror}; {_DATASETS}") from None
    raise ProblemError(f"dataset {dataset} holds no folders level1, level2, ...; {_DATASETS}")
