"""Writes a result back into the user's own files: the changed statements of each, in the file's own form."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...core import Config, KernelError, PythonKernel
from ...core.source_text import source_lines
from ...core.syntax_tree import expression_tree, syntax_tree
from ...core.user_package import CandidateText, UserModule, read_module, with_lines
from .autotuning import Autotuned, list_of_configs
from .constant_places import PlaceKey
from .launch_constants import without_launch_constants
from .modules import functions_of
from .size_choices import PlaceValue, SizeChoice
from .sources import SiteForm
from .text_edits import with_expressions
from .translation import UserFunction

_OURS = ("SEARCH_SPACE", "CONSTRAINTS", "CONFIGS")


def put_back(
    function: UserFunction,
    kernel: PythonKernel,
    configs: Sequence[Config],
    by_place: Mapping[PlaceKey, PlaceValue] | None = None,
) -> dict[Path, str]:
    """Return the new text of each file that changes, for a candidate made from the function.

    `configs` are those that its autotuners choose from afterwards, the best first. `by_place` has values of constants
    at their places, if they differ from the candidate's. Raises `KernelError` for a change
    that has no place in the user's files, and for a file that changed since it was read.
    """
    for module in function.package.modules:
        if not module.path.is_file() or read_module(module.path) != module.text:
            raise KernelError(
                f"{module.path} changed while the kernel was optimized, so the patch would not apply; run it again"
            )
    labels = tuple(module.label for module in function.package.modules)
    start, final = CandidateText.of(function.kernel.source, labels), CandidateText.of(kernel.source, labels)
    if _forms(start.call) != _forms(final.call):
        raise KernelError(f"the result changed how {function.target.name} is called, which a patch cannot express")
    new = _new_constants(start, final, kernel)
    values = {item.constant: kernel.config.get(item.constant, item.start) for item in function.launched}
    originals = _originals(function)
    # A list of configs was measured with these choices of what launches take.
    taken = {name: {value} for name, value in values.items()}
    for key, place in (by_place or {}).items():
        taken[key.constant] |= place.values if isinstance(place, SizeChoice) else {place}
    configs = [item for item in configs if all(item.get(name, values[name]) in taken[name] for name in values)]
    found: dict[Path, str] = {}
    for module in function.package.modules:
        text = _without(final.files[module.label], {*_OURS, *new} - set(_assigned(module.text)))
        text = _with_lists(function, module, text, kernel, configs)
        own = {key[1:]: value for key, value in (by_place or {}).items() if key.label == module.label}
        text = without_launch_constants(text, function.launched, values, originals, own)
        text = _with_constants(text, new)
        now = CandidateText("", {**final.files, module.label: text}, final.call)
        text = merged(module.text, with_lines(text, now.missing_imports(module.label)))
        if text != module.text:
            found[module.path] = text
    return found


def merged(before: str, after: str) -> str:
    """Return `after` with the text of `before` for every statement that is the same in both, comments included.

    New statements of a rule or a model may be formatted differently; unchanged ones are not touched.
    """
    old, new = _Chunks(before), _Chunks(after)
    if old.forms == new.forms:
        return before
    parts = []
    for kind, i, j, k, m in difflib.SequenceMatcher(None, old.forms, new.forms, autojunk=False).get_opcodes():
        if kind == "equal":
            parts += old.texts[i:j]
        elif kind == "replace" and j - i == m - k:
            parts += [_merged_pair(old, i + n, new, k + n) for n in range(j - i)]
        else:
            parts += new.texts[k:m]
    text = "".join(part if part.endswith("\n") else part + "\n" for part in parts) + old.rest
    if not _means(text, after):  # such as several statements on one line
        return after
    return text if before.endswith("\n") or not text.endswith("\n") else text.removesuffix("\n")


class _Chunks:
    """The statements of a block: the form of each, and its text with the comments before it."""

    def __init__(self, text: str, body: Sequence[ast.stmt] | None = None, start: int = 0) -> None:
        self.lines = source_lines(text, keepends=True)
        self.body = syntax_tree(text).body if body is None else body
        self.forms, self.texts, at = list[str](), list[str](), start
        for node in self.body:
            end = node.end_lineno or node.lineno
            self.forms.append(ast.dump(node))
            self.texts.append("".join(self.lines[at:end]) if end > at else "")
            at = max(at, end)
        self.rest = "".join(self.lines[at:])
        self.text = text


def _merged_pair(old: _Chunks, i: int, new: _Chunks, k: int) -> str:
    """Return a changed statement: the body is merged for a function or class with the same head, otherwise replaced."""
    before, after = old.body[i], new.body[k]
    if not _same_head(before, after) or before.body[0].col_offset != after.body[0].col_offset:  # type: ignore[attr-defined]
        return _with_comments(old.texts[i], new.texts[k])
    first: Any = before
    begin, end = first.body[0].lineno - 1, first.end_lineno
    inner = _Chunks("".join(old.lines), first.body, begin)
    other: Any = after
    there = _Chunks("".join(new.lines), other.body, other.body[0].lineno - 1)
    parts = []
    for kind, a, b, c, d in difflib.SequenceMatcher(None, inner.forms, there.forms, autojunk=False).get_opcodes():
        parts += inner.texts[a:b] if kind == "equal" else there.texts[c:d]
    head_length = len(old.texts[i]) - len("".join(old.lines[begin:end]))
    return old.texts[i][:head_length] + "".join(part if part.endswith("\n") else part + "\n" for part in parts)


def _same_head(before: ast.stmt, after: ast.stmt) -> bool:
    if not isinstance(before, ast.FunctionDef | ast.ClassDef) or type(before) is not type(after):
        return False
    heads = []
    for node in (before, after):
        fields = {name: value for name, value in ast.iter_fields(node) if name != "body"}
        heads.append(ast.dump(type(node)(**fields, body=[])))
    # A body on the line of its head has no lines of its own.
    own = all(node.body[0].lineno > node.lineno for node in (before, after))
    return own and heads[0] == heads[1]


def _with_comments(before: str, after: str) -> str:
    """Return a new statement with the comments and empty lines before the old one, unless it has some."""
    head = before.splitlines(keepends=True)
    count = next((n for n, line in enumerate(head) if line.strip() and not line.lstrip().startswith("#")), 0)
    lines = after.splitlines(keepends=True)
    own = next((n for n, line in enumerate(lines) if line.strip()), 0)
    if own < len(lines) and lines[own].lstrip().startswith("#"):
        return after
    return "".join([*head[:count], *lines[own:]])


def _with_lists(
    function: UserFunction, module: UserModule, text: str, kernel: PythonKernel, configs: Sequence[Config]
) -> str:
    """Return a module's text with lists of configs in place of the single config of the parameters."""
    own = {item.kernel: item for item in function.kernels if item.module == module.name}
    before = {item.name: item for item in functions_of(module.text)}
    edits: list[tuple[ast.expr, str]] = []
    for node in functions_of(text):
        expression = list_of_configs(node) if node.name in own else None
        if expression is None or ast.dump(expression) != _expression_form(own[node.name].single):
            continue
        one, known = own[node.name], list_of_configs(before[node.name])
        assert known is not None
        chosen = _chosen(one, kernel, configs)
        same = chosen == [dict(one.configs[0])] or _as_set(chosen) == _as_set(one.configs)
        edits.append((expression, _text_of(module.text, known) if same else _list_text(one, chosen)))
    return with_expressions(text, edits)


def _chosen(one: Autotuned, kernel: PythonKernel, configs: Sequence[Config]) -> list[dict[str, Any]]:
    present = kernel.config
    rows = [
        {name: {**present, **config}[constant] for name, constant in one.constants.items() if constant in present}
        for config in configs or [Config()]
    ]
    return [dict(row) for row in dict.fromkeys(tuple(row.items()) for row in rows)]


def _originals(function: UserFunction) -> dict[str, str]:
    """Return the texts of the constants' numbers, as the user wrote them."""
    texts = {module.name: module.text.encode() for module in function.package.modules}
    return {
        row.constant: texts[site.module][site.begin : site.end].decode()
        for row in function.launched
        for site in row.sites
        if site.form is SiteForm.LITERAL
    }


def _new_constants(start: CandidateText, final: CandidateText, kernel: PythonKernel) -> dict[str, object]:
    """Return the constants that the result added anywhere: each file gets those that it needs."""
    known = {name for text in (start.parameters, *start.files.values()) for name in _assigned(text)}
    now = {name for text in (final.parameters, *final.files.values(), final.call) for name in _assigned(text)}
    return {name: kernel.constants[name] for name in sorted(now - known) if name in kernel.constants}


def _with_constants(text: str, new: Mapping[str, object]) -> str:
    """Return a text with the new constants that it mentions, before its first function or class."""
    tree = syntax_tree(text)
    mentioned = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    lines = [f"{name} = {value!r}\n" for name, value in new.items() if name in mentioned]
    if not lines:
        return text
    first = next((node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)), None)
    at = (
        len(source_lines(text)) if first is None else min([first.lineno, *(d.lineno for d in first.decorator_list)]) - 1
    )
    own = source_lines(text, keepends=True)
    return "".join([*own[:at], *lines, "\n\n", *own[at:]])


def _without(text: str, names: set[str]) -> str:
    """Return a text without the assignments of some names at its top level."""
    lines = source_lines(text, keepends=True)
    gone: set[int] = set()
    for node in syntax_tree(text).body:
        if set(_assigned_by(node)) & names:
            gone |= set(range(node.lineno - 1, node.end_lineno or node.lineno))
    return "".join(line for number, line in enumerate(lines) if number not in gone)


def _assigned(text: str) -> list[str]:
    return [name for node in syntax_tree(text).body for name in _assigned_by(node)]


def _assigned_by(node: ast.stmt) -> list[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _expression_form(text: str) -> str:
    return ast.dump(expression_tree(text))


def _text_of(text: str, node: ast.expr) -> str:
    found = ast.get_source_segment(text, node)
    assert found is not None
    return found


def _list_text(one: Autotuned, configs: Sequence[Mapping[str, Any]]) -> str:
    texts = [one.config_text({name: repr(value) for name, value in config.items()}) for config in configs]
    return f"[{texts[0]}]" if len(texts) == 1 else "[\n" + "".join(f"        {text},\n" for text in texts) + "    ]"


def _as_set(configs: Sequence[Mapping[str, Any]]) -> set[Config]:
    return {Config(config) for config in configs}


def _means(text: str, other: str) -> bool:
    try:
        return _forms(text) == _forms(other)
    except SyntaxError:
        return False


def _forms(text: str) -> str:
    return ast.dump(syntax_tree(text))
