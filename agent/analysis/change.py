"""Builds what a rule makes of a kernel: it collects edits, constants and helpers, and writes the file with them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import libcst as cst

from ...core import Config, Parameter, PythonKernel, SearchSpace, Value
from .applicability import NotApplicable, require
from .edit import (
    Edit,
    after,
    before,
    both,
    declaring,
    edited,
    parsed,
    put,
    put_statements,
    with_arguments,
    with_parameters,
)
from .source import add_constant, fresh, insert_before_definitions, tree_and_names

T = TypeVar("T")
NO_LAUNCH = "no function is launched at one place alone"


@dataclass(frozen=True)
class Machine:
    """What a rule knows about the target device."""

    cores: int
    multiprocessors: int | None = None
    """Of a GPU; None where they are not known."""


@dataclass(frozen=True)
class Rewritten:
    """A rewritten kernel and the parameters that the rule introduced."""

    kernel: PythonKernel
    did: str
    """The change, in one sentence."""
    parameters: tuple[Parameter, ...] = ()
    constraints: tuple[str, ...] = ()

    @property
    def space(self) -> SearchSpace | None:
        """The search space of the introduced parameters, or None without any."""
        return SearchSpace(self.parameters, self.constraints) if self.parameters else None


class Change:
    """What a rule does to one kernel; nothing is changed before `rewritten`.

    Edits name nodes of `module`, which is the tree that the analyses read. Two edits of one node are made one after
    the other.
    """

    def __init__(self, kernel: PythonKernel, machine: Machine) -> None:
        self.kernel = kernel
        self.machine = machine
        self.module, self.taken = tree_and_names(kernel)
        """The tree, and all names of the file; `fresh` adds to them."""
        self.parameters: list[Parameter] = []
        """Those that the rule introduces."""
        self.constraints: list[str] = []
        self._constants: list[Parameter] = []
        self._declared: list[Parameter] = []
        self._limits: list[str] = []
        self._helpers: list[str] = []
        self._edits: dict[cst.CSTNode, Edit] = {}
        self._bound: dict[str, Value] = {}

    def require_free(self, *names: str) -> None:
        """Raise NotApplicable where the file has one of these names: a rule that wrote them was here before."""
        present = sorted(self.taken & {*names})
        require(not present, f"the file has {', '.join(present)} already")

    def fresh(self, wanted: str) -> str:
        """Return a name that the file does not have: the wanted one, or one with a number behind it."""
        return fresh(wanted, self.taken)

    def constant(self, wanted: str, values: Sequence[Value], default: Value) -> str:
        """Add a constant to the file, a parameter of the search; return its name, which the file did not have."""
        name = self.fresh(wanted)
        self.add(Parameter(name, values, default))
        return name

    def add(
        self, parameter: Parameter, searched: Sequence[Value] | None = None, constraints: Sequence[str] = ()
    ) -> None:
        """Add a constant whose name is from `fresh`.

        Where the file declares its space, its values and `constraints` are declared; `searched` are those of them that
        are searched now, all without it.
        """
        self._constants.append(parameter)
        self._declared.append(parameter)
        self._limits += constraints
        kept = parameter if searched is None else Parameter(parameter.name, searched, parameter.default)
        self.parameters.append(kept)

    def declare(self, parameter: Parameter) -> None:
        """Add a parameter whose constant the rule writes itself."""
        self._declared.append(parameter)
        self.parameters.append(parameter)

    def bind(self, values: Mapping[str, Value]) -> None:
        """Set constants of the file."""
        self._bound |= values

    def fix(self, name: str, value: Value) -> None:
        """Set a constant of the file, and leave a declared space no other value of it."""
        self._declared.append(Parameter(name, [value]))
        self._bound[name] = value

    def helper(self, text: str) -> None:
        """Add definitions before the first function or class of the file."""
        self._helpers.append(text)

    def edit(self, node: cst.CSTNode, edit: Edit) -> None:
        """Change a node, after what is done to it already."""
        self._edits[node] = both(self._edits[node], edit) if node in self._edits else edit

    def put(self, node: cst.CSTNode, new: str | cst.CSTNode) -> None:
        """Put another expression in the place of one."""
        if isinstance(new, str):
            self.edit(node, put(new))
        else:
            self.edit(node, lambda _: new)

    def put_statements(self, node: cst.CSTNode, text: str) -> None:
        """Put statements in the place of one; comments before it stay."""
        self.edit(node, put_statements(text))

    def remove(self, node: cst.CSTNode) -> None:
        """Remove a statement."""
        self.edit(node, lambda _: cst.RemoveFromParent())

    def before(self, statement: cst.CSTNode, text: str) -> None:
        """Put statements before one."""
        self.edit(statement, before(text))

    def after(self, statement: cst.CSTNode, text: str) -> None:
        """Put statements after one."""
        self.edit(statement, after(text))

    def at_start(self, function: cst.FunctionDef, text: str) -> None:
        """Put statements before all others of a function."""

        def put_first(node: cst.CSTNode) -> cst.CSTNode:
            changed = cst.ensure_type(node, cst.FunctionDef)
            return changed.with_changes(body=changed.body.with_changes(body=[*parsed(text), *changed.body.body]))

        self.edit(function, put_first)

    def add_functions(self, function: cst.FunctionDef, more: Iterable[cst.FunctionDef]) -> None:
        """Add functions after one."""
        lines = [cst.EmptyLine(indent=False), cst.EmptyLine(indent=False)]
        added = [item.with_changes(leading_lines=lines) for item in more]
        self.edit(function, lambda node: cst.FlattenSentinel([cst.ensure_type(node, cst.FunctionDef), *added]))

    def add_parameters(
        self, function: cst.FunctionDef, plain: Iterable[str] = (), constants: Iterable[str] = ()
    ) -> None:
        """Add parameters at the end of a function: plain ones, then those that are `tl.constexpr`."""
        for names, constexpr in ((list(plain), False), (list(constants), True)):
            if names:
                self.edit(function, with_parameters(names, constexpr))

    def add_arguments(self, call: cst.Call, values: Mapping[str, str]) -> None:
        """Add keyword arguments at the end of a call."""
        self.edit(call, with_arguments(values))

    def each(self, items: Iterable[T], change: Callable[[T, Change], object], none: str = NO_LAUNCH) -> None:
        """Change every item that fits. Raises NotApplicable where none does: with the reasons, or `none` without items.

        What was done for an item before NotApplicable was raised is forgotten.
        """
        reasons: list[str] = []
        fits = 0
        for item in items:
            edits, taken, constraints = dict(self._edits), set(self.taken), list(self.constraints)
            try:
                change(item, self)
                fits += 1
            except NotApplicable as reason:
                self._edits, self.taken, self.constraints = edits, taken, constraints
                reasons.append(str(reason))
        require(fits, "; ".join(dict.fromkeys(reasons)) or none)

    def first(self, items: Iterable[T], change: Callable[[T, Change], object], none: str = NO_LAUNCH) -> None:
        """Change the first item that fits. Raises NotApplicable where none does, as `each`."""
        done: list[T] = []

        def once(item: T, own: Change) -> None:
            if not done:
                change(item, own)
                done.append(item)

        self.each(items, once, none)

    def edited(self) -> cst.Module:
        """Return the file with all edits, without constants and helpers."""
        return edited(self.module, self._edits)

    def rewritten(self, did: str) -> Rewritten:
        """Return the kernel with everything that was asked for; `did` says in one sentence what that is."""
        module = self.edited()
        for helper in reversed(self._helpers):
            module = insert_before_definitions(module, helper)
        for constant in reversed(self._constants):
            module = add_constant(module, constant.name, constant.default)
        module = declaring(self.kernel, module, self._declared, [*self.constraints, *self._limits])
        return self.finished(module, did)

    def finished(self, module: cst.Module, did: str) -> Rewritten:
        """Return a kernel whose module the rule made itself, with the rule's parameters and constraints."""
        kernel = replace(self.kernel, source=module.code).bind(Config(self._bound))
        return Rewritten(kernel, did, tuple(self.parameters), tuple(self.constraints))
