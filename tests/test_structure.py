"""Counts of the structure that must not grow unseen: import circles, modules of a folder, and the upper floors' size.

A limit is what was counted when it was written; whoever needs more raises it here, and says why in the commit.
"""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
OUTSIDE = ("tests", "benchmarks", "build", "docs", "results", "corpus/kernels", "corpus/problems", "corpus/examples")
FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef
CIRCLES = [
    ["core.constraint_search", "core.encoded_space", "core.space"],
    ["core.language", "core.languages", "core.languages.tilelang", "core.languages.triton"],
]
"""Modules that import each other, type-checking imports and those of functions included."""
SIBLINGS = 26
"""Modules of one folder."""
LARGER = {"core": 56}
FLOORS = ("agent.history", "cli", "commands", "mcp_server", "python_api", "runtime")
"""What stands above the agent, and what reads runs."""
FILES, LINES, IN_FUNCTIONS = 103, 17_400, 73
"""Of the floors: files, lines to the next fifty, and imports within functions."""


def modules() -> dict[str, Path]:
    """The package's modules by name; the root, which names what it exports for type checkers, is left out."""
    found = {path.stem: path for path in ROOT.glob("*.py") if path.name != "__init__.py"}
    for folder in (path.parent for path in ROOT.glob("*/__init__.py")):
        for path in folder.rglob("*.py"):
            relative = path.relative_to(ROOT)
            if relative.as_posix().startswith(OUTSIDE) and relative.parts[1:] != ("examples.py",):
                continue
            found[".".join(relative.with_suffix("").parts).removesuffix(".__init__")] = path
    return found


def imported_by(name: str, path: Path, known: dict[str, Path]) -> set[str]:
    """The modules that one imports, relatively as all of the package do."""
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = package[: len(package) - node.level + 1] + (node.module.split(".") if node.module else [])
            for alias in node.names:
                whole = ".".join([*base, alias.name])
                found.add(whole if whole in known else ".".join(base))
    return (found & known.keys()) - {name}


def reached(name: str, graph: dict[str, set[str]]) -> set[str]:
    """All modules that a module imports, over others too."""
    found: set[str] = set()
    left = [name]
    while left:
        new = graph[left.pop()] - found
        found |= new
        left += new
    return found


def of_floors() -> list[Path]:
    """The files of the upper floors."""
    return [path for name, path in modules().items() if f"{name}.".startswith(tuple(f"{floor}." for floor in FLOORS))]


def imports_in_functions(path: Path) -> int:
    """How many imports of a file stand within functions."""
    functions = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, FUNCTION)]
    found = {
        node.lineno
        for function in functions
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
    }
    return len(found)


def test_two_circles_are_left_both_in_core() -> None:
    known = modules()
    graph = {name: imported_by(name, path, known) for name, path in known.items()}
    below = {name: reached(name, graph) for name in graph}
    circles = {
        tuple(sorted(other for other in below[name] if name in below[other])) for name in graph if name in below[name]
    }
    assert sorted(map(list, circles)) == CIRCLES


def test_no_folder_has_more_modules_than_a_reader_can_see() -> None:
    counts = Counter(path.parent for path in modules().values() if path.name != "__init__.py")
    named = {folder.relative_to(ROOT).as_posix(): count for folder, count in counts.items()}
    too_many = {name: count for name, count in named.items() if count > LARGER.get(name, SIBLINGS)}
    assert not too_many


def test_the_upper_floors_do_not_grow() -> None:
    files = of_floors()
    lines = sum(len(path.read_text().splitlines()) for path in files)
    advice = "raise it in tests/test_structure.py if it is worth that, as for a new command, and say why in the commit"
    assert len(files) <= FILES, f"more files: {advice}"
    assert lines <= LINES, f"more lines: {advice}"
    assert sum(map(imports_in_functions, files)) <= IN_FUNCTIONS, f"more imports within functions: {advice}"
