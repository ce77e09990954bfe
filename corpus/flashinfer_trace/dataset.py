"""A dataset's folder: read, checked, and added to.

flashinfer-trace keeps definitions/, solutions/, workloads/, traces/ and blob/workloads/ apart; SOL-ExecBench has a
folder per problem. An invalid record, or one that refers to a missing one, is a `ProblemError` that names file and
field.
"""

from __future__ import annotations

import glob
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from ...core import ProblemError
from ...core.files import write_whole
from ...core.json_lines import append_lines
from ...core.text import wrong_field
from . import sol_execbench
from .definition import Definition
from .record import Record
from .references import check_workload
from .schema import Solution, Trace, Workload

RecordT = TypeVar("RecordT", bound=Record)
FIX = "fix or remove it"


def is_trace_dataset(root: Path) -> bool:
    """Return whether a folder is a dataset of flashinfer-trace, or of SOL-ExecBench."""
    return (root / "definitions").is_dir() or any(_problem_folders(root))


def _problem_folders(root: Path) -> Iterator[Path]:
    for pattern in ("", "*/", "*/*/"):
        yield from (path.parent for path in sorted(root.glob(pattern + sol_execbench.DEFINITION)))


@dataclass(frozen=True)
class TraceDataset:
    """The Definitions and Solutions of a folder, by name; Workloads and Traces are read when they are asked for."""

    root: Path
    definitions: dict[str, Definition]
    solutions: dict[str, Solution]
    folders: dict[str, Path]
    """In SOL-ExecBench, the folder of each Definition; otherwise empty."""

    @classmethod
    def read(cls, root: Path) -> TraceDataset:
        """Read a dataset's folder; raises `ProblemError` for the first broken file."""
        definitions: dict[str, Definition] = {}
        solutions: dict[str, Solution] = {}
        folders: dict[str, Path] = {}
        apart = (root / "definitions").is_dir()
        parts = [root / "definitions"] if apart else list(_problem_folders(root))
        for part in parts:
            for path in sorted(part.rglob("*.json")) if apart else [part / sol_execbench.DEFINITION]:
                definition = read_record(Definition, path)
                if definition.name in definitions:
                    raise ProblemError(f"{path}: name: there is another Definition {definition.name}; {FIX}")
                if apart and definition.op_type is None:
                    raise ProblemError(f"{path}: op_type: the folders of its Solutions and Traces need it; add it")
                definitions[definition.name] = definition
                if not apart:
                    folders[definition.name] = part
        for part in [root / "solutions"] if apart else parts:
            for path in sorted(part.rglob("*.json") if apart else part.glob(sol_execbench.SOLUTIONS)):
                solution = read_record(Solution, path)
                if solution.name in solutions:
                    raise ProblemError(f"{path}: name: there is another Solution {solution.name}; {FIX}")
                if solution.definition not in definitions:
                    raise ProblemError(f"{path}: definition: there is no Definition {solution.definition}; {FIX}")
                solutions[solution.name] = solution
        return cls(root, definitions, solutions, folders)

    def is_sol(self, definition: str) -> bool:
        """Return whether a Definition, and therefore every record for it, is in SOL-ExecBench's format."""
        return definition in self.folders

    def workloads(self, name: str) -> tuple[Workload, ...]:
        """Return a Definition's Workloads, all checked against it; raises `ProblemError` for the first broken one."""
        definition, found = self.definitions[name], dict[str, Workload]()
        for where, line in self._lines("workloads", name):
            trace = self._trace(where, line, name)
            workload = trace.workload
            if trace.solution is not None:
                raise ProblemError(f"{where}: solution: a Workload has none; move the line to traces/")
            if workload.uuid in found:
                raise ProblemError(f"{where}: workload.uuid: {workload.uuid} stands there twice; {FIX}")
            try:
                check_workload(definition, workload, self.root_of(name))
            except ValueError as error:
                raise ProblemError(f"{where}: workload.{error}; {FIX}") from None
            found[workload.uuid] = workload
        return tuple(found.values())

    def traces(self, name: str) -> tuple[Trace, ...]:
        """Return a Definition's Traces; raises `ProblemError` for one without a Solution of the dataset."""
        found = []
        for where, line in self._lines("traces", name):
            trace = self._trace(where, line, name)
            if trace.solution not in self.solutions:
                raise ProblemError(f"{where}: solution: there is no Solution {trace.solution}; {FIX}")
            found.append(trace)
        return tuple(found)

    def root_of(self, name: str) -> Path:
        """Return the folder at which the paths of a Definition's files begin."""
        return self.folders.get(name, self.root)

    def add_trace(self, trace: Trace) -> Path:
        """Append a Trace to its Definition's file, on disk before this returns; raises `ResultsError`."""
        definition = self.definitions[trace.definition]
        path = self.folders.get(definition.name, Path()) / sol_execbench.TRACES
        if not self.is_sol(definition.name):
            path = self.root / "traces" / str(definition.op_type) / f"{definition.name}.jsonl"
        append_lines(path, [trace.to_json()], "make room, or copy the dataset")
        return path

    def add_solution(self, solution: Solution) -> Path:
        """Write a Solution; raises `ResultsError`."""
        definition = self.definitions[solution.definition]
        if self.is_sol(definition.name):
            path = self.folders[definition.name] / f"solution_{solution.name}.json"
        else:
            folders = (solution.author, str(definition.op_type), definition.name)
            path = self.root.joinpath("solutions", *folders, f"{solution.name}.json")
        self.solutions[solution.name] = solution
        return write_whole(path, solution.to_json(indent=2) + "\n", "make the dataset's folder writable, or copy it")

    def _trace(self, where: str, line: str, name: str) -> Trace:
        if self.is_sol(name) and where.partition(", line")[0].endswith(sol_execbench.WORKLOADS):
            return Trace(definition=name, workload=parse_record(Workload, line, where))
        trace = parse_record(Trace, line, where)
        if trace.definition != name:
            raise ProblemError(f"{where}: definition: {trace.definition}, in the file of {name}; {FIX}")
        return trace

    def _lines(self, kind: str, name: str) -> Iterator[tuple[str, str]]:
        """Yield where each line of a Definition's files of workloads or traces stands, and the line."""
        if self.is_sol(name):
            files = [self.folders[name] / {"workloads": sol_execbench.WORKLOADS}.get(kind, sol_execbench.TRACES)]
        else:
            files = sorted((self.root / kind).rglob(f"{glob.escape(name)}.jsonl"))
        for path in files:
            for number, line in enumerate(_text(path).split("\n") if path.exists() else (), start=1):
                if line.strip():
                    yield f"{path}, line {number}", line


def read_record(kind: type[RecordT], path: Path) -> RecordT:
    """Return the record that a JSON file holds; raises `ProblemError`, which names the field."""
    return parse_record(kind, _text(path), str(path))


def parse_record(kind: type[RecordT], text: str, where: str) -> RecordT:
    """Return the record of a JSON text; raises `ProblemError`, which names `where` and the field."""
    try:
        return kind.model_validate_json(text)
    except ValidationError as error:
        raise ProblemError(f"{where}: {wrong_field(error)}; {FIX}") from None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ProblemError(f"cannot read {path}: {error}; {FIX}") from None
