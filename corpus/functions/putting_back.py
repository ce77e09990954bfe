"""A result brought back into the user's own files: what changed in the kernel file, where it came from."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import libcst as cst

from ...core import Config, KernelError, PythonKernel
from ...core.syntax_tree import syntax_tree
from ..inlining.inliner import Piece
from ..inlining.modules import Library, Module, OwnName, Package
from ..inlining.references import definition_of, references_of
from ..inlining.rewriting import Rename, import_order, with_imports
from ..inlining.roots import Roots
from ..inlining.statements import known_again
from .autotuning import Autotuned, config_text, list_of_configs
from .translation import UserFunction

_OURS = ("SEARCH_SPACE", "CONSTRAINTS", "CONFIGS")


def put_back(function: UserFunction, kernel: PythonKernel, configs: Sequence[Config]) -> dict[Path, str]:
    """Return the new text of each file that changes, for a kernel that was made of the function.

    `configs` are those that its autotuners choose from afterwards, the best first. Raises `KernelError` for a change
    that has no place in the user's files, and for a file that changed since it was read.
    """
    for path, text in function.inlined.files.items():
        if not path.is_file() or path.read_text() != text:
            raise KernelError(
                f"{path} changed while the kernel was optimized, so the patch would not apply; run it again"
            )
    return _Return(function, kernel, configs).files()


class _Return:
    def __init__(self, function: UserFunction, kernel: PythonKernel, configs: Sequence[Config]) -> None:
        self.function = function
        self.start = Package.of_text(function.kernel.source)
        self.final = Package.of_text(kernel.source)
        self.kernel = kernel
        self.configs = configs
        self.package = Package(Roots(*function.inlined.files))
        self.own = {flat: name for name, flat in function.inlined.names.items()}
        self.constants = {name for names in function.constants for name in names.values()}
        self.added: dict[Path, dict[str, None]] = {}
        """By file: the names of new definitions that it needs."""
        self.imports: dict[Path, dict[str, None]] = {}

    def files(self) -> dict[Path, str]:
        changed: dict[Path, dict[int, cst.CSTNode]] = {}
        for piece in self.function.inlined.pieces:
            found = self._changed(piece)
            if found is not None:
                changed.setdefault(piece.path, {})[piece.index] = found
        return {path: self._assembled(path, statements) for path, statements in changed.items()}

    def _changed(self, piece: Piece) -> cst.CSTNode | None:
        """Return the statement in place of a piece; None where it stays."""
        before, after = (self._defining(module, piece.names) for module in (self.start, self.final))
        module = self.package.module(piece.module)
        original = module.tree.body[piece.index]
        if before is None:
            return None
        body = self._new_body() if self.function.name in piece.names else None
        if after is None and body is None:
            return None  # other modules may use what the kernel no longer needs
        same = body is None and (after is None or _equal(self.start, before, self.final, after))
        texts = self._lists(module, original)
        if same:
            return original.visit(Rename(texts, set(), original, _itself(original))) if texts else None  # type: ignore[return-value]
        kept = after if after is not None else before
        found = self._in_words_of(piece, module, kept if body is None else kept.with_changes(body=body))
        if isinstance(found, cst.FunctionDef) and isinstance(original, cst.FunctionDef):
            found = found.with_changes(leading_lines=original.leading_lines)
        return found

    def _lists(self, module: Module, original: cst.CSTNode) -> dict[cst.CSTNode, str]:
        """Return the new list of configs of an autotuned kernel; empty where the list stays."""
        for one, names in zip(self.function.kernels, self.function.constants, strict=True):
            known = list_of_configs(module, original)
            if known is None or (module.name, _name(original)) != (one.module, one.kernel):
                continue
            chosen = self._chosen(one, names)
            same = chosen == [dict(one.configs[0])] or _as_set(chosen) == _as_set(one.configs)
            return {} if same else {known: _list_text(chosen)}
        return {}

    def _chosen(self, one: Autotuned, names: Mapping[str, str]) -> list[dict[str, Any]]:
        present = self.kernel.config
        rows = [
            {name: {**present, **config}[constant] for name, constant in names.items() if constant in present}
            for config in self.configs or [Config()]
        ]
        return [dict(row) for row in dict.fromkeys(tuple(row.items()) for row in rows)]

    def _new_body(self) -> cst.BaseSuite | None:
        """Return the body of ModelNew.forward where it does more than to call the function."""
        before, after = (self._defining(module, ("ModelNew",)) for module in (self.start, self.final))
        if before is None or after is None or _equal(self.start, before, self.final, after):
            return None
        assert isinstance(after, cst.ClassDef)
        methods = [statement for statement in after.body.body if isinstance(statement, cst.FunctionDef)]
        forward = next((method for method in methods if method.name.value == "forward"), None)
        text = self.final.code(forward.body) if forward else ""
        names = {
            node.id for node in ast.walk(syntax_tree(self.final.code(after).strip())) if isinstance(node, ast.Name)
        }
        launcher = self._defining(self.start, (self.function.name,))
        assert isinstance(launcher, cst.FunctionDef)
        if forward is None or len(methods) > 1 or "self." in text or self.function.name in names:
            raise KernelError(
                f"the result changed ModelNew beyond the body of {self.function.target.name}, which a patch cannot "
                "express; take it from the kernel's file by hand"
            )
        given = [parameter.name.value for parameter in forward.params.params][1:]
        own = [item.name.value for item in (*launcher.params.params, *launcher.params.kwonly_params)]
        if given != own:
            raise KernelError(f"the result takes {', '.join(given)} instead of {', '.join(own)}; take it by hand")
        return forward.body

    def _in_words_of(self, piece: Piece, module: Module, statement: cst.CSTNode) -> cst.CSTNode:
        """Return a statement of the kernel file as the user's module writes it."""
        configs = list_of_configs(self.final, statement)
        found = references_of(self.final, statement, [configs] if configs is not None else [])
        texts: dict[cst.CSTNode, str] = {}
        for node, one in found.nodes.items():
            text = self.final.code(node)
            local = self._local_name(piece, module, text, one if isinstance(one, tuple) else None)
            if local != text:
                texts[node] = local
        own = {flat: self.own[flat].name for flat in piece.names if flat in self.own}
        for kernel, names in zip(self.function.kernels, self.function.constants, strict=True):
            known, original = list_of_configs(self.final, statement), module.tree.body[piece.index]
            if known is None or (module.name, _name(original)) != (kernel.module, kernel.kernel):
                continue
            kept = self._lists(module, original)
            before = list_of_configs(module, original)
            if before is not None and _plain(self.final.code(known)) == _plain(kernel.single(names)):
                texts[known] = kept.get(before) or module.code(before)
        texts |= known_again(statement, piece.original) if piece.original else {}
        changed = statement.visit(Rename(texts, set(), statement, own))
        assert isinstance(changed, cst.CSTNode)
        return with_imports(changed, piece.imports) if piece.imports else changed

    def _local_name(self, piece: Piece, module: Module, flat: str, library: tuple[str, Library] | None) -> str:
        """Return what a name of the kernel file is called in a module; notes what the module lacks."""
        if flat in piece.spelled:
            return piece.spelled[flat]
        path = piece.path
        if library is not None:
            meaning = module.imports.get(flat)
            if meaning is None and flat not in module.definitions:
                self.imports.setdefault(path, {})[library[1].statement] = None
            elif not isinstance(meaning, Library):
                raise KernelError(
                    f"{path}: the result needs '{library[1].statement}', and {flat} is something else there"
                )
            return flat
        if flat in self.own:
            own = self.own[flat]
            if own.module == module.name:
                return own.name
            for name, meaning in module.imports.items():
                if (
                    isinstance(meaning, OwnName)
                    and definition_of(self.package, meaning.module, meaning.name, name) == own
                ):
                    return name
            if any(flat in text for text in piece.imports):
                return flat
            raise KernelError(f"{path}: the result needs {own.name} of {own.module} there; import it, and run it again")
        if flat not in _OURS:
            self.added.setdefault(path, {})[flat] = None
        return flat

    def _assembled(self, path: Path, statements: Mapping[int, cst.CSTNode]) -> str:
        module = self.package.module_of(path)
        body: list[Any] = list(module.tree.body)
        new = self._new_definitions(path, module)
        for index, statement in statements.items():
            body[index] = statement
        first = min(statements)
        if isinstance(statements[first], cst.FunctionDef | cst.ClassDef | cst.SimpleStatementLine):
            body[first:first] = new
        places = [i for i, one in enumerate(module.tree.body) if _is_import(one)]
        lines = [line for text in self.imports.get(path, {}) for line in text.split("\n")]
        lines.sort(key=import_order)
        at = places[-1] + 1 if places else 0
        body[at:at] = [cst.parse_statement(line) for line in lines]
        return module.tree.with_changes(body=body).code

    def _new_definitions(self, path: Path, module: Module) -> list[cst.CSTNode]:
        """Return the definitions that the result adds to a file, in the kernel file's order."""
        piece = next(item for item in self.function.inlined.pieces if item.path == path)
        bare = Piece(path, piece.module, -1, (), "", "", {})
        found: dict[int, cst.CSTNode] = {}
        open_ = list(self.added.get(path, {}))
        while open_:
            name = open_.pop()
            if name in module.definitions or name in module.imports:
                raise KernelError(f"{path}: the result adds {name}, which the file has already; rename it there")
            for index in self.final.definitions.get(name, ()):
                if index not in found:
                    before = set(self.added.get(path, {}))
                    found[index] = self._in_words_of(bare, module, self.final.tree.body[index])
                    open_ += [item for item in self.added.get(path, {}) if item not in before]
        return [found[index] for index in sorted(found)]

    def _defining(self, module: Module, names: Sequence[str]) -> Any:
        index = next((module.definitions[name][-1] for name in names if name in module.definitions), None)
        return None if index is None else module.tree.body[index]


def _as_set(configs: Sequence[Mapping[str, Any]]) -> set[Config]:
    return {Config(config) for config in configs}


def _plain(text: str) -> str:
    return ast.dump(syntax_tree(text.strip()))


def _name(statement: Any) -> str:
    return statement.name.value if isinstance(statement, cst.FunctionDef) else ""


def _list_text(configs: Sequence[Mapping[str, Any]]) -> str:
    texts = [config_text({name: repr(value) for name, value in config.items()}) for config in configs]
    return f"[{texts[0]}]" if len(texts) == 1 else "[\n" + "".join(f"        {text},\n" for text in texts) + "    ]"


def _equal(one: Module, first: cst.CSTNode, other: Module, second: cst.CSTNode) -> bool:
    return ast.dump(syntax_tree(one.code(first).strip("\n"))) == ast.dump(syntax_tree(other.code(second).strip("\n")))


def _itself(statement: Any) -> dict[str, str]:
    return {statement.name.value: statement.name.value} if hasattr(statement, "name") else {}


def _is_import(statement: cst.CSTNode) -> bool:
    return isinstance(statement, cst.SimpleStatementLine) and isinstance(statement.body[0], cst.Import | cst.ImportFrom)
