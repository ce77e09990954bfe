"""Scopes against those that Python's own compiler finds."""

from __future__ import annotations

import ast
import inspect
import symtable
import sys
from pathlib import Path

import pytest
from kernelwright.core.scopes import Scope, Scopes

ROOT = Path(__file__).parents[2]
FILES = sorted([*(ROOT / "corpus/kernels/triton").rglob("1_*.py"), *(ROOT / "tests/exploits/cheats").rglob("*.py")])
ODD = """
import a.b, a.c as ac
from .here import near
from a import d as e
x = 1
def outer(p, *rest, q=x, **more):
    def before():
        nonlocal late
        late = p
        return lambda y: y + late + x
    late = 0
    def declares():
        global x, made
        x, made = 1, 2
        def reads():
            return x, made
        return reads
    class Inner(Base):
        late = [late for late in rest]
        x: int = late
        def method(self):
            return x, late, __class__
    with open(p) as (handle, *others):
        for i, (j, k) in enumerate(others):
            total += [w := i + n for n in range(j) if (last := n) for m in range(n)]
    try:
        import a.d
    except (A, B) as error:
        match error:
            case {"k": v, **others}:
                return v
            case [first, *tail] | Point(first, tail) as whole:
                return first, tail, whole
    return before, {k: v for k, v in late}, {s for s in w}, (g for g in last)
async def waits():
    async for z in waits():
        yield z
"""


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_names_belong_where_the_compiler_says(path: Path) -> None:
    assert_as_compiled(path.read_text())


def test_odd_names_belong_where_the_compiler_says() -> None:
    assert assert_as_compiled(ODD) > 60


def assert_as_compiled(source: str) -> int:
    """Compare all names in functions, classes and comprehensions; return how many there are."""
    scopes = Scopes(ast.parse(source))
    tables = _tables(scopes, symtable.symtable(source, "file", "exec"))
    compared = 0
    for node, scope in scopes.scope_of.items():
        if isinstance(node, ast.Name) and scope is not scopes.module and node.id != "__class__":
            symbol = tables[scope].lookup(node.id)
            expected = "own" if symbol.is_local() else "module's" if symbol.is_global() else "outer"
            assert _place(scopes, scope, node.id) == expected, (node.id, node.lineno)
            compared += 1
    return compared


def _place(scopes: Scopes, scope: Scope, name: str) -> str:
    values = scope.find(name)
    if values is None or values is scopes.module.names.get(name):
        return "module's"
    return "own" if values is scope.names.get(name) else "outer"


def _tables(scopes: Scopes, module: symtable.SymbolTable) -> dict[Scope, symtable.SymbolTable]:
    """Return the compiler's table of each scope: those of one parent and one name come in the same order."""
    found = {scopes.module: module}
    left = {scopes.module: module.get_children()}
    for node, scope in scopes.inner.items():
        assert scope.parent is not None
        title = getattr(node, "name", _TITLES.get(type(node), ""))
        table = next(table for table in left[scope.parent] if table.get_name() == title)
        left[scope.parent].remove(table)
        found[scope], left[scope] = table, table.get_children()
    return found


_TITLES = {
    ast.Lambda: "lambda",
    ast.ListComp: "listcomp",
    ast.SetComp: "setcomp",
    ast.DictComp: "dictcomp",
    ast.GeneratorExp: "genexpr",
}


def test_a_path_is_that_of_the_last_import_in_sight() -> None:
    tree = ast.parse(
        "import torch\nimport a as torch\nfrom . import own\ndef f(tl):\n    torch.nn.x, tl.dot, own.y, t[0].z"
    )
    scopes = Scopes(tree)
    expressions = next(node for node in ast.walk(tree) if isinstance(node, ast.Tuple)).elts
    assert [scopes.imported(node) for node in expressions] == ["a.nn.x", None, None, None]


def test_an_assignment_behind_a_nonlocal_has_the_same_values() -> None:
    tree = ast.parse("def f():\n    def g():\n        nonlocal x\n        x = 1\n    x = 2\n    return x\n")
    scopes = Scopes(tree)
    values = scopes.inner[tree.body[0]].find("x")
    assert values is not None and sorted(ast.unparse(item.value) for item in values if item.value) == ["1", "2"]
    assert scopes.find(next(node for node in ast.walk(tree) if isinstance(node, ast.Name))) is values


def test_depth_is_not_limited() -> None:
    """A tree may be deeper than Python's own recursion, here of a chain that only its own code reads."""
    scopes = Scopes(ast.parse("x = y" + ".z" * 900))
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack()) + 50)
    try:
        scopes = Scopes(scopes.module.node)
    finally:
        sys.setrecursionlimit(limit)
    assert len(scopes.parents) == 903
