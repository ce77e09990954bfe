"""Where code of a file runs: within a kernel, in a call of the model, or before any call."""

from __future__ import annotations

import ast

from ...core.scopes import Function
from ..workers.modules import PREPARE
from .values import Values


class Surroundings:
    """Answers for the nodes of one file."""

    def __init__(self, tree: ast.Module, values: Values) -> None:
        self._tree, self._values = tree, values
        self._kernels: dict[ast.AST, bool] = {}
        self._setup: dict[ast.AST, bool] = {}

    def is_called(self, node: ast.AST) -> bool:
        """Return whether this is what a call calls."""
        parent = self._values.scopes.parents.get(node)
        return isinstance(parent, ast.Call) and parent.func is node

    def in_kernel(self, node: ast.AST) -> bool:
        """Return whether this is in the body of a function in the kernel language."""
        for around in self._values.scopes.surrounding(node):
            if around not in self._kernels:
                self._kernels[around] = self._values.is_kernel(around)
            if self._kernels[around]:
                return True
        return False

    def in_setup(self, node: ast.AST) -> bool:
        """Return whether this runs only when the file is loaded, the model is constructed or its weights are packed."""
        functions = [around for around in self._values.scopes.surrounding(node) if isinstance(around, Function)]
        if not functions:
            return True
        return len(functions) == 1 and (
            getattr(functions[0], "name", "") == "__init__"
            or self._packs(functions[0])
            or self._serves_setup(functions[0])
        )

    def _packs(self, function: Function) -> bool:
        """Return whether this is the model's method that packs its weights, which nothing in the file calls."""
        model = self._values.scopes.parents.get(function)
        return (
            isinstance(function, ast.FunctionDef)
            and function.name == PREPARE
            and isinstance(model, ast.ClassDef)
            and model.name == "ModelNew"
            and len(function.args.args) == 1
            and not self._values.scopes.uses(PREPARE)
        )

    def _serves_setup(self, function: Function) -> bool:
        """Return whether all that is done with a function of the module is calling it where `in_setup` holds."""
        if function not in self._setup:
            self._setup[function] = False  # one that calls itself does not count
            self._setup[function] = (
                isinstance(function, ast.FunctionDef)
                and function in self._tree.body
                and not function.decorator_list
                and self._only_called_early(function.name)
            )
        return self._setup[function]

    def _only_called_early(self, name: str) -> bool:
        uses = self._values.scopes.uses(name)
        return bool(uses) and all(
            isinstance(use, ast.Name) and self.is_called(use) and self.in_setup(use) for use in uses
        )
