"""The constants of launches written into the user's texts, and their values written back in the texts' own form."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from ...core import Value
from ...core.syntax_tree import syntax_tree
from .constant_places import occurrences
from .launch_values import OWN
from .launches import Launched
from .size_choices import PlaceValue, SizeChoice
from .sources import Site, SiteForm
from .text_edits import Edit, Offsets, edited


def with_launch_constants(text: str, module: str, rows: Sequence[Launched]) -> str:
    """Return a module's text with constants at the places that give values to launches. Lines keep their numbers."""
    placed = [(row, site) for row in rows for site in row.sites if site.module == module]
    closings: list[Edit] = []
    others: list[Edit] = []
    merged: dict[tuple[int, int], list[tuple[Launched, Site]]] = {}
    for row, site in placed:
        begin, end, constant = site.begin, site.end, row.constant
        match site.form:
            case SiteForm.LITERAL:
                others.append((begin, end, constant))
            case SiteForm.CHOSEN:
                others.append((begin, begin, f"{constant} or ("))
                closings.append((end, end, ")"))
            case SiteForm.AFTER:
                others.append((end, end, f"; {site.name} = {constant} or {site.name}"))
            case SiteForm.ADDED:
                others.append((end, end, f", {site.name}={constant}"))
            case SiteForm.MERGED:
                merged.setdefault((begin, end), []).append((row, site))
    for (begin, end), several in merged.items():
        entries = [f'**({{"{site.name}": {row.constant}}} if {row.constant} else {{}})' for row, site in several]
        others.append((begin, begin, "{**("))
        closings.append((end, end, f"), {', '.join(entries)}}}"))
    return edited(text.encode(), [*closings, *others])


def without_launch_constants(
    text: str,
    rows: Sequence[Launched],
    values: Mapping[str, Value],
    originals: Mapping[str, str],
    by_place: Mapping[tuple[str, int], PlaceValue],
) -> str:
    """Return a text with the values of constants in their places, as the user would write them.

    Values of the start keep their form: `originals` has the texts of numbers, by constant. `by_place` has values for
    the first, second, ... place of a constant that differ from those of its other places.
    """
    by_constant = {row.constant: row for row in rows}
    everywhere: dict[str, PlaceValue] = {**values}
    edits: list[Edit] = []
    offsets, known = Offsets(text), occurrences(syntax_tree(text), by_constant)
    for (constant, number), value in by_place.items():
        if number < len(nodes := known.get(constant, [])):
            # As a constant of its own.
            name = f"{constant}_AT_PLACE_{number}"
            by_constant[name] = replace(by_constant[constant], constant=name)
            everywhere[name] = value
            originals = {**originals, **({name: originals[constant]} if constant in originals else {})}
            edits.append((offsets.begin(nodes[number]), offsets.end(nodes[number]), name))
    text = edited(offsets.data, edits)
    while True:
        back = _WrittenBack(text, by_constant, everywhere, originals)
        if not (edits := list(back.edits())):
            return text
        text = edited(back.offsets.data, edits)


class _WrittenBack:
    """The outermost places of constants in a text, each with its replacement."""

    def __init__(
        self,
        text: str,
        rows: Mapping[str, Launched],
        values: Mapping[str, PlaceValue],
        originals: Mapping[str, str],
    ) -> None:
        self.tree = syntax_tree(text)
        self.offsets = Offsets(text)
        self._rows, self._values, self._originals = rows, values, originals

    def edits(self) -> Iterator[Edit]:
        open_: list[ast.AST] = [self.tree]
        while open_:
            node = open_.pop()
            found = self._edit(node)
            if found is not None:
                yield found
                continue
            removed, inside = self._removed(node), list(ast.iter_child_nodes(node))
            yield from removed.values()
            open_ += [item for item in inside if item not in removed]

    def _removed(self, node: ast.AST) -> dict[ast.AST, Edit]:
        """Return replacements of parts of a node other than expressions: statements after others, added arguments."""
        found: dict[ast.AST, Edit] = {}
        if isinstance(node, ast.FunctionDef):
            found |= self._defaults(node)
        for body in (getattr(node, name, None) for name in ("body", "orelse", "finalbody")):
            for before, statement in pairwise(body if isinstance(body, list) else []):
                if (row := self._after(statement)) is not None:
                    found[statement] = self._statement(before, statement, row)
        if isinstance(node, ast.Call):
            parts: list[ast.expr | ast.keyword] = [*node.args, *node.keywords]
            for before, word in pairwise(parts):
                row = self._row(word.value) if isinstance(word, ast.keyword) else None
                if (
                    isinstance(word, ast.keyword)
                    and row is not None
                    and row.form is SiteForm.ADDED
                    and self._values[row.constant] == row.start
                ):
                    found[word] = (self.offsets.end(before), self.offsets.end(word), self._closing(before, word))
        return found

    def _defaults(self, function: ast.FunctionDef) -> dict[ast.AST, Edit]:
        """Return None for each default chosen by sizes, which the function's first statement replaces."""
        arguments, found, lines = function.args, dict[ast.AST, Edit](), list[str]()
        plain = [*arguments.posonlyargs, *arguments.args]
        pairs = [*zip(reversed(plain), reversed(arguments.defaults), strict=False)]
        named = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        pairs += [(argument, default) for argument, default in named if default is not None]
        documented = ast.get_docstring(function, clean=False) is not None and len(function.body) > 1
        first = function.body[1 if documented else 0]
        indent = self.offsets.indent(first) or ""
        for argument, default in sorted(pairs, key=lambda pair: pair[0].lineno * 1000 + pair[0].col_offset):
            row = self._row(default)
            if row is None or not isinstance(value := self._values[row.constant], SizeChoice):
                continue
            found[default] = (self.offsets.begin(default), self.offsets.end(default), "None")
            chosen = value.text(row.start, self._original(row))
            lines += [f"if {argument.arg} is None:\n{indent}    {argument.arg} = {chosen}\n{indent}"]
        if lines:
            at = self.offsets.begin(first)
            found[arguments] = (at, at, "".join(lines))
        return found

    def _original(self, row: Launched) -> str:
        return self._originals.get(row.constant, repr(row.start))

    def _closing(self, before: ast.expr | ast.keyword, word: ast.keyword) -> str:
        """Return the parentheses that close the argument before a removed one."""
        between = self.offsets.data[self.offsets.end(before) : self.offsets.begin(word)].decode()
        return between.rpartition(",")[0]

    def _statement(self, before: ast.stmt, statement: ast.stmt, row: Launched) -> Edit:
        begin, end = self.offsets.end(before), self.offsets.end(statement)
        value = self._values[row.constant]
        if value == OWN:
            return begin, end, ""
        indent = self.offsets.indent(before)
        assert isinstance(statement, ast.Assign)
        name = ast.unparse(statement.targets[0])
        new = f"{name} = {value.text(OWN, name) if isinstance(value, SizeChoice) else repr(value)}"
        return begin, end, f"; {new}" if indent is None else f"\n{indent}{new}"

    def _after(self, statement: ast.AST) -> Launched | None:
        match statement:
            case ast.Assign(
                targets=[ast.Name(id=name)], value=ast.BoolOp(op=ast.Or(), values=[constant, ast.Name(id=other)])
            ) if name == other and (row := self._row(constant)) is not None:
                return row
        return None

    def _row(self, node: ast.AST) -> Launched | None:
        return self._rows.get(node.id) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) else None

    def _edit(self, node: ast.AST) -> Edit | None:
        match node:
            case ast.BoolOp(op=ast.Or(), values=[constant, *rest]) if (row := self._row(constant)) is not None:
                value = self._values[row.constant]
                if isinstance(value, SizeChoice):
                    new = value.text(OWN, self._of(rest))
                else:
                    new = self._of(rest) if value == OWN else repr(value)
                return self.offsets.begin(node), self.offsets.end(node), new
            case ast.Dict(keys=[None, *_], values=[first, *others]) if any(map(self._entry, others)):
                return self.offsets.begin(node), self.offsets.end(node), self._dict(node, first, others)
            case ast.Name() if (row := self._row(node)) is not None:
                value = self._values[row.constant]
                if isinstance(value, SizeChoice):
                    new = value.text(row.start, self._original(row))
                else:
                    new = self._original(row) if value == row.start else repr(value)
                return self.offsets.begin(node), self.offsets.end(node), new
        return None

    def _of(self, rest: Sequence[ast.expr]) -> str:
        """Return the text after a constant, without the added parentheses."""
        return " or ".join(self.offsets.text(item) for item in rest)

    def _entry(self, node: ast.expr) -> tuple[str, Launched] | None:
        match node:
            case ast.IfExp(test=test, body=ast.Dict(keys=[ast.Constant(value=str(name))])) if (
                row := self._row(test)
            ) is not None:
                return name, row
        return None

    def _dict(self, node: ast.Dict, first: ast.expr, others: Sequence[ast.expr]) -> str:
        entries = []
        for key, other in zip(node.keys[1:], others, strict=True):
            found = self._entry(other)
            if found is None:
                entries.append(f"{'**' if key is None else self.offsets.text(key) + ': '}{self.offsets.text(other)}")
            elif isinstance(value := self._values[found[1].constant], SizeChoice):
                entries.append(value.entry(found[0]))
            elif value != OWN:
                entries.append(f'"{found[0]}": {value!r}')
        text = self.offsets.text(first)
        return f"{{**{text}, {', '.join(entries)}}}" if entries else text
