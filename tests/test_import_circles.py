"""Modules that import each other in a circle, type-checking imports and those of functions included."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[1]
OUTSIDE = ("tests", "benchmarks", "build", "docs", "results", "corpus/kernels", "corpus/problems", "corpus/examples")
KNOWN = [
    ["core.constraint_search", "core.encoded_space", "core.space"],
    ["core.language", "core.languages", "core.languages.tilelang", "core.languages.triton"],
]


def modules() -> dict[str, Path]:
    """The package's modules by name; the root, which names what it exports for type checkers, is left out."""
    found = {}
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


def test_two_circles_are_left_both_in_core() -> None:
    known = modules()
    graph = {name: imported_by(name, path, known) for name, path in known.items()}
    below = {name: reached(name, graph) for name in graph}
    circles = {tuple(sorted(one for one in below[name] if name in below[one])) for name in graph if name in below[name]}
    assert sorted(map(list, circles)) == KNOWN
