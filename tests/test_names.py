"""Names of classes have one meaning each, and exceptions are named as errors."""

from __future__ import annotations

import ast
import functools
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
NOT_OURS = ("tests", "benchmarks", "results", "seeds", "build", "corpus/kernels", "corpus/problems", "corpus/examples")
"""Tests, scripts, and kernels: their classes are named by KernelBench's convention, `Model` and `ModelNew`."""


@functools.cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """The classes and loops of a file: parsing all files takes longer than what the tests ask."""
    wanted = (ast.ClassDef, ast.For, ast.comprehension)
    return tuple(node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, wanted))


def classes() -> Iterator[tuple[str, ast.ClassDef]]:
    """Every class of the package, with its file."""
    for path in sorted(ROOT.rglob("*.py")):
        file = path.relative_to(ROOT).as_posix()
        if not file.startswith((*(f"{folder}/" for folder in NOT_OURS), ".")):
            for node in nodes(path):
                if isinstance(node, ast.ClassDef):
                    yield file, node


def test_exceptions_end_in_error() -> None:
    found = list(classes())
    bases = {node.name: {ast.unparse(base).split(".")[-1] for base in node.bases} for _, node in found}

    def is_exception(name: str) -> bool:
        if name in bases:
            return any(is_exception(base) for base in bases[name] - {name})
        return name.endswith(("Error", "Exception"))

    names = [f"{file}: {node.name}" for file, node in found if is_exception(node.name)]
    assert len(names) > 40
    assert [name for name in names if not name.endswith("Error")] == []


OF_COMMANDS = {"Options", "Plan", "Result"}
"""Names that every command gives to its own classes: see docs/architecture.md."""
MORE_THAN_ONCE = {
    "Correctness",  # our verdict; a record of flashinfer-trace's format
    "Target",  # a kind of processor; a user's function
}


def test_a_class_name_has_one_meaning() -> None:
    files = defaultdict(list)
    for file, node in classes():
        if not (node.name in OF_COMMANDS and file.startswith(("commands/", "runtime/"))):
            files[node.name].append(file)
    assert {name: places for name, places in files.items() if len(places) > 1 and name not in MORE_THAN_ONCE} == {}


def test_loop_variables_are_not_called_one() -> None:
    """`for one in kernels` does not say what `one` is. Code of these folders is recorded, or about to be replaced."""
    recorded = ("results", "seeds", "build", "corpus", "tests/exploits/cheats", "tests/packages")
    found = []
    for path in sorted(ROOT.rglob("*.py")):
        file = path.relative_to(ROOT).as_posix()
        if file.startswith((*(f"{folder}/" for folder in recorded), ".")):
            continue
        for node in nodes(path):
            if isinstance(node, ast.For | ast.comprehension):
                names = [target.id for target in ast.walk(node.target) if isinstance(target, ast.Name)]
                found += [f"{file}:{node.target.lineno}"] * ("one" in names)
    assert found == [], "name what the variable stands for"
