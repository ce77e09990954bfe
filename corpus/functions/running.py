"""Runs what a user's module computes when it is imported: lists of configs, conditions of imports."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import libcst as cst

from ...core import KernelError
from ..inlining.inliner import inline
from ..inlining.modules import Library, Module, OwnName
from ..inlining.references import references_of
from ..inlining.rewriting import Rename
from .program import answer_of

TIMEOUT_S = 120.0
"""Seconds after which it is ended."""
_PACKAGE = Path(__file__).absolute().parents[2]
# By name, since evaluators are built on this package. Nothing of the working folder is imported before the rules hold.
_CONFINED = f"""
import sys
sys.path.append({str(_PACKAGE.parent)!r})
from {__package__.partition(".")[0]}.evaluators.workers.confined_program import main
main()
"""
_SURROUNDINGS = ("os", "sys", "inspect", "importlib", "platform")
_OTHER = "other"
_VALUES = """
import json as _json
print("\\n" + _json.dumps([one if isinstance(one, (bool, int)) else "other" for one in [EXPRESSIONS]]))
"""


def evaluate(module: Module, expressions: Sequence[cst.CSTNode], template: str, what: str, advice: str) -> Any:
    """Return what a program prints as JSON: what the expressions need, and the template with their texts in it.

    It runs in a process of its own, in a sandbox, and as a rule needs no GPU. Raises `KernelError` where it fails.
    """
    wanted, libraries = list[OwnName](), list[tuple[str, Library]]()
    found = [references_of(module, node, dynamic=True) for node in expressions]
    for item in found:
        wanted += [name for name in item.nodes.values() if isinstance(name, OwnName)]
        libraries += [name for name in item.nodes.values() if isinstance(name, tuple)]
    inlined = inline(module.package, wanted, libraries=libraries, dynamic=True)
    texts = []
    for node, item in zip(expressions, found, strict=True):
        flat = {at: inlined.names[name] if isinstance(name, OwnName) else name[0] for at, name in item.nodes.items()}
        changed = node.visit(Rename(flat, set(), node, {}))
        assert isinstance(changed, cst.CSTNode)
        texts.append(module.code(changed))
    program = inlined.source + template.format(*texts)
    with tempfile.TemporaryDirectory(prefix="kernelwright-program-") as folder:
        confined = ["-P", "-c", _CONFINED, folder, "-"]
        return answer_of(confined, program, TIMEOUT_S, f"{what} cannot be evaluated here", advice)


class Conditions:
    """Decides, once each, what depends on where the package is imported, and is the same ever after.

    These are conditions of imports such as `if compare_version("triton", operator.ge, "3.0.0")`, and switches such as
    `FAST = os.getenv("FAST", "0") == "1"`, which no kernel may ask for itself.
    """

    def __init__(self) -> None:
        self._known: dict[cst.CSTNode, Mapping[cst.CSTNode, str]] = {}

    def decided(self, module: Module, statement: cst.CSTNode) -> Mapping[cst.CSTNode, str]:
        """Return the value of each expression of a top-level statement that is decided; empty where there is none."""
        if statement not in self._known:
            self._known[statement] = self._evaluated(module, statement)
        return self._known[statement]

    def _evaluated(self, module: Module, statement: cst.CSTNode) -> Mapping[cst.CSTNode, str]:
        what = f"{module}, line {module.line(statement)}: the condition of an import"
        expressions, form = _assigned(statement), "{}"
        if isinstance(statement, cst.If):
            expressions, form = _tests(statement), "bool({})"
            if _imports(statement):
                return _values(module, expressions, form, what)
        try:
            asked = any(_asks_surroundings(module, expression) for expression in expressions)
            return _values(module, expressions, form, what) if asked else {}
        except KernelError:
            return {}  # it stays as it is, and the guards say what they think of it


def _values(module: Module, expressions: Sequence[cst.CSTNode], form: str, what: str) -> Mapping[cst.CSTNode, str]:
    """Return truths and whole numbers as texts; other values stay expressions, since a text may be a secret."""
    template = _VALUES.replace("EXPRESSIONS", ", ".join([form] * len(expressions)))
    found = evaluate(module, expressions, template, what, "import it unconditionally")
    return {node: repr(value) for node, value in zip(expressions, found, strict=True) if value != _OTHER}


def _tests(statement: cst.If) -> list[cst.CSTNode]:
    tests: list[cst.CSTNode] = []
    branch: Any = statement
    while isinstance(branch, cst.If):
        tests.append(branch.test)
        branch = branch.orelse
    return tests


def _assigned(statement: cst.CSTNode) -> list[cst.CSTNode]:
    """Return the value that a statement gives to one name."""
    match statement:
        case cst.SimpleStatementLine(body=[cst.Assign(targets=[cst.AssignTarget(target=cst.Name())], value=value)]):
            return [value]
        case cst.SimpleStatementLine(body=[cst.AnnAssign(target=cst.Name(), value=cst.BaseExpression() as value)]):
            return [value]
    return []


def _asks_surroundings(module: Module, node: cst.CSTNode) -> bool:
    found = references_of(module, node, dynamic=True).nodes.values()
    libraries = [item[1].statement.split() for item in found if isinstance(item, tuple)]
    return any(words[1].partition(".")[0] in _SURROUNDINGS for words in libraries)


def _imports(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.Import | cst.ImportFrom) or any(_imports(child) for child in node.children)
