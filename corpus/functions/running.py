"""Runs what a user's module computes when it is imported: lists of configs, conditions of imports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import libcst as cst

from ..inlining.inliner import inline
from ..inlining.modules import Library, Module, OwnName
from ..inlining.references import references_of
from ..inlining.rewriting import Rename
from .program import answer_of

TIMEOUT_S = 120.0
"""Seconds. The user's own code runs; this only ends an endless wait."""


def evaluate(module: Module, expressions: Sequence[cst.CSTNode], template: str, what: str, advice: str) -> Any:
    """Return what a program prints as JSON: what the expressions need, and the template with their texts in it.

    It runs in a process of its own, and as a rule needs no GPU. Raises `KernelError` where it fails.
    """
    wanted, libraries = list[OwnName](), list[tuple[str, Library]]()
    found = [references_of(module, node, dynamic=True) for node in expressions]
    for one in found:
        wanted += [name for name in one.nodes.values() if isinstance(name, OwnName)]
        libraries += [name for name in one.nodes.values() if isinstance(name, tuple)]
    inlined = inline(module.package, wanted, libraries=libraries, dynamic=True)
    texts = []
    for node, one in zip(expressions, found, strict=True):
        flat = {at: inlined.names[name] if isinstance(name, OwnName) else name[0] for at, name in one.nodes.items()}
        changed = node.visit(Rename(flat, set(), node, {}))
        assert isinstance(changed, cst.CSTNode)
        texts.append(module.code(changed))
    program = inlined.source + template.format(*texts)
    return answer_of(["-"], program, TIMEOUT_S, f"{what} cannot be evaluated here", advice)


class Conditions:
    """Decides, once each, the conditions of imports such as `if compare_version("triton", operator.ge, "3.0.0")`."""

    def __init__(self) -> None:
        self._known: dict[cst.CSTNode, Mapping[cst.CSTNode, str]] = {}

    def decided(self, module: Module, statement: cst.CSTNode) -> Mapping[cst.CSTNode, str]:
        """Return the value of each condition of a top-level `if` that chooses between imports; empty for others."""
        if not isinstance(statement, cst.If) or not _imports(statement):
            return {}
        if statement not in self._known:
            tests: list[cst.CSTNode] = []
            branch: Any = statement
            while isinstance(branch, cst.If):
                tests.append(branch.test)
                branch = branch.orelse
            values = "[" + ", ".join(["bool({})"] * len(tests)) + "]"
            template = f'\nimport json as _json\nprint("\\n" + _json.dumps({values}))\n'
            what = f"{module}, line {module.line(statement)}: the condition of an import"
            found = evaluate(module, tests, template, what, "import it unconditionally")
            self._known[statement] = {node: repr(value) for node, value in zip(tests, found, strict=True)}
        return self._known[statement]


def _imports(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.Import | cst.ImportFrom) or any(_imports(child) for child in node.children)
