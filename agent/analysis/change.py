"""Builds the kernel of a rule: collects edits, constants and helpers, and writes the file with them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

import libcst as cst

from ...core import Config, Parameter, PythonKernel, SearchSpace, Value
from ...core.expressions import Expression
from .applicability import NotApplicableError, fitting, require
from .source import code, expression, fresh, insert_before_definitions, names, put, statements, tree_and_names
from .tree import Edit, assigned_name, edited, find_all, only_line, target_of, with_block

S = TypeVar("S")
T = TypeVar("T")
NO_LAUNCH = "no function is launched at one place alone"


@dataclass(frozen=True)
class Machine:
    """What a rule knows about the target device."""

    cores: int
    multiprocessors: int | None = None
    """Number of multiprocessors of a GPU; None if unknown."""


@dataclass(frozen=True)
class Rewritten:
    """A rewritten kernel and the parameters that the rule introduced."""

    kernel: PythonKernel
    summary: str
    """The change, in one sentence."""
    parameters: tuple[Parameter, ...] = ()
    constraints: tuple[str, ...] = ()

    @property
    def space(self) -> SearchSpace | None:
        """The search space of the introduced parameters, or None without any."""
        return SearchSpace(self.parameters, self.constraints) if self.parameters else None


class Change:
    """The changes of a rule to one kernel. Nothing is changed before `rewritten`.

    Edits name nodes of `module`, which is the tree that the analyses read. Two edits of one node are made one after
    the other.
    """

    def __init__(self, kernel: PythonKernel, machine: Machine) -> None:
        self.kernel = kernel
        self.machine = machine
        self.module, self.taken = tree_and_names(kernel)
        """The tree, and all names of the file; `fresh` adds to them."""
        self.parameters: list[Parameter] = []
        """Parameters that the rule introduces."""
        self.constraints: list[str] = []
        self._constants: list[Parameter] = []
        self._declared: list[Parameter] = []
        self._limits: list[str] = []
        self._helpers: list[str] = []
        self._edits: dict[cst.CSTNode, Edit] = {}
        self._bound: dict[str, Value] = {}

    def require_free(self, *names: str) -> None:
        """Raise NotApplicableError if the file has one of these names, since the rule was applied before."""
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

    def add_import(self, text: str) -> None:
        """Write an import after those that the file begins with."""
        imports: list[cst.CSTNode] = []
        for statement in self.module.body:
            if isinstance(statement, cst.FunctionDef | cst.ClassDef) and imports:
                break
            if isinstance(only_line(statement), cst.Import | cst.ImportFrom):
                imports.append(statement)
        self.after(imports[-1], text)

    def helper(self, text: str) -> None:
        """Add definitions before the first function or class of the file."""
        self._helpers.append(text)

    def edit(self, node: cst.CSTNode, edit: Edit) -> None:
        """Change a node, after earlier changes of it."""
        self._edits[node] = _both(self._edits[node], edit) if node in self._edits else edit

    def put(self, node: cst.CSTNode, new: str | cst.CSTNode) -> None:
        """Put another expression in the place of one."""
        self.edit(node, put(new) if isinstance(new, str) else lambda _: new)

    def put_statements(self, node: cst.CSTNode, new: str | Sequence[cst.BaseStatement]) -> None:
        """Put statements in the place of one; comments before it stay where the new ones are text."""
        self.edit(node, _put_statements(new) if isinstance(new, str) else lambda _: cst.FlattenSentinel(new))

    def remove(self, *nodes: cst.CSTNode) -> None:
        """Remove statements."""
        for node in nodes:
            self.edit(node, lambda _: cst.RemoveFromParent())

    def before(self, statement: cst.CSTNode, text: str) -> None:
        """Put statements before one."""
        self.edit(statement, lambda node: cst.FlattenSentinel([*statements(text), node]))

    def after(self, statement: cst.CSTNode, text: str) -> None:
        """Put statements after one."""
        self.edit(statement, lambda node: cst.FlattenSentinel([node, *statements(text)]))

    def at_start(self, node: cst.CSTNode, text: str) -> None:
        """Put statements before all others of a function or another block."""
        self.edit(node, lambda new: with_block(new, [*statements(text), *new.body.body]))

    def add_functions(self, function: cst.FunctionDef, more: Iterable[cst.FunctionDef]) -> None:
        """Add functions after one."""
        lines = [cst.EmptyLine(indent=False), cst.EmptyLine(indent=False)]
        added = [item.with_changes(leading_lines=lines) for item in more]
        self.edit(function, lambda node: cst.FlattenSentinel([node, *added]))

    def add_parameters(
        self, function: cst.FunctionDef, plain: Iterable[str] = (), constants: Iterable[str] = ()
    ) -> None:
        """Add parameters at the end of a function: plain ones, then those that are `tl.constexpr`."""
        self.edit(function, with_parameters([*plain], [*constants]))

    def add_arguments(self, call: cst.CSTNode, values: Mapping[str, str]) -> None:
        """Add keyword arguments at the end of a call."""
        self.edit(call, with_arguments(values))

    def each(
        self, items: Iterable[S], change: Callable[[S, Change], T], none: str = NO_LAUNCH, most: int | None = None
    ) -> list[T]:
        """Change every item that fits, and return what that gave.

        Raises NotApplicableError where none does, as `fitting`.

        Changes for an item before NotApplicableError was raised are dropped.
        """

        def attempt(item: S) -> T:
            edits, taken, constraints = dict(self._edits), set(self.taken), list(self.constraints)
            try:
                return change(item, self)
            except NotApplicableError:
                self._edits, self.taken, self.constraints = edits, taken, constraints
                raise

        return fitting(items, attempt, none, most)

    def first(self, items: Iterable[S], change: Callable[[S, Change], T], none: str = NO_LAUNCH) -> T:
        """Change the first item that fits. Raises NotApplicableError if none does, as `each`."""
        return self.each(items, change, none, most=1)[0]

    def edited(self) -> cst.Module:
        """Return the file with all edits, without constants and helpers."""
        return edited(self.module, self._edits)

    def rewritten(self, summary: str) -> Rewritten:
        """Return the kernel with all requested changes. `summary` is one sentence about them."""
        module = self.edited()
        for helper in reversed(self._helpers):
            module = insert_before_definitions(module, helper)
        for constant in reversed(self._constants):
            module = insert_before_definitions(module, f"{constant.name} = {constant.default!r}\n")
        constraints = [*self.constraints, *self._limits]
        if self.kernel.declared_values and (self._declared or constraints):
            # A file that declares its parameters is searched over these alone, in later runs too.
            values = dict(self.kernel.declared_values) | {item.name: item.values for item in self._declared}
            module = with_declared(module, values, [*self.kernel.declared_constraints, *constraints])
        return self.finished(module, summary)

    def finished(self, module: cst.Module, summary: str) -> Rewritten:
        """Return a kernel whose module the rule made itself, with the rule's parameters and constraints."""
        kernel = replace(self.kernel, source=module.code).bind(Config(self._bound))
        return Rewritten(kernel, summary, tuple(self.parameters), tuple(self.constraints))

    def settled(self, summary: str, helpers: Sequence[str] = ()) -> Rewritten:
        """Return the kernel with all edits, with the rule's parameters in place of existing constants.

        Unused constants are removed. Constraints are kept, except those over a removed constant or over a parameter of
        the rule, which has its own constraints.
        """
        module, new = self.edited(), {parameter.name: parameter for parameter in self.parameters}
        for helper in helpers:
            module = insert_before_definitions(module, helper)
        gone = {name for name in self.kernel.config if name not in new} & _read(self.module) - _read(module)
        body = [statement for statement in module.body if assigned_name(statement) not in gone]
        module = module.with_changes(body=body)
        values = {code(target_of(line)): line.value for s in body if isinstance(line := only_line(s), cst.Assign)}
        module = edited(module, {values[name]: put(repr(new[name].default)) for name in new.keys() & values.keys()})
        missing = "".join(
            f"{parameter.name} = {parameter.default!r}\n" for parameter in new.values() if parameter.name not in values
        )
        places = [position for position, statement in enumerate(body) if assigned_name(statement) == "SEARCH_SPACE"]
        if missing and places:  # after the last constant
            at = places[0]
            module = module.with_changes(body=[*module.body[:at], *statements(missing), *module.body[at:]])
        elif missing:
            module = insert_before_definitions(module, missing)
        declared = {name: members for name, members in self.kernel.declared_values.items() if name not in {*gone, *new}}
        if self.kernel.declared_values and (gone or new):
            declared |= {name: parameter.values for name, parameter in new.items()}
            limits = [text for text in self.kernel.declared_constraints if not Expression(text).names & {*gone, *new}]
            module = with_declared(module, declared, [*limits, *self.constraints])
        return self.finished(module, summary)


def _read(module: cst.Module) -> set[str]:
    return names(*(statement for statement in module.body if assigned_name(statement) is None))


def _put_statements(text: str) -> Edit:
    def make(node: Any) -> cst.FlattenSentinel[cst.BaseStatement]:
        first, *others = cast(list[Any], statements(text))
        return cst.FlattenSentinel([first.with_changes(leading_lines=getattr(node, "leading_lines", ())), *others])

    return make


def with_parameters(plain: Sequence[str], constants: Sequence[str] = (), annotation: str = "") -> Edit:
    """Return an edit of a FunctionDef that adds parameters at its end: plain ones, then those that are `tl.constexpr`.

    Plain ones may have an annotation. After one with a default they have one too, as Python asks: calls give them all.
    """

    def add(function: cst.FunctionDef) -> cst.FunctionDef:
        params = [parameter.with_changes(comma=cst.MaybeSentinel.DEFAULT) for parameter in function.params.params]
        default = cst.Name("None") if params and params[-1].default is not None else None
        constexpr = cst.Annotation(expression("tl.constexpr"))
        given = cst.Annotation(expression(annotation)) if annotation else None
        new = [cst.Param(cst.Name(name), given, default=default) for name in plain]
        new += [cst.Param(cst.Name(name), constexpr, default=default) for name in constants]
        return function.with_changes(params=function.params.with_changes(params=[*params, *new]))

    return add


def keyword_argument(name: str, text: str) -> cst.Arg:
    """Return the argument `name=text` of a call."""
    equal = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
    return cst.Arg(keyword=cst.Name(name), value=expression(text), equal=equal)


def with_arguments(values: Mapping[str, str]) -> Edit:
    """Return an edit of a Call that adds keyword arguments at its end. A comment behind the last one stays there."""

    def add(call: cst.Call) -> cst.Call:
        args = list(call.args)
        if args and values and not (isinstance(args[-1].comma, cst.Comma) and find_all(args[-1].comma, cst.Comment)):
            args[-1] = args[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
        return call.with_changes(args=[*args, *(keyword_argument(*item) for item in values.items())])

    return add


def _both(first: Edit, second: Edit) -> Edit:
    """Return an edit that makes two changes to one node: the second to what the first leaves in the node's place.

    Where the first puts statements around the node, the second changes the node between them.
    """

    def make(node: Any) -> Any:
        changed = first(node)
        if not isinstance(changed, cst.FlattenSentinel):
            assert isinstance(changed, cst.CSTNode), "what is removed cannot be changed again"
            return second(changed)
        lines = list(changed)
        at = next((i for i, line in enumerate(lines) if line is node), 0)
        middle = second(lines[at])
        inner = list(middle) if isinstance(middle, cst.FlattenSentinel) else [middle]
        return cst.FlattenSentinel([*lines[:at], *inner, *lines[at + 1 :]])

    return make


def with_declared(module: cst.Module, values: Mapping[str, Sequence[Value]], constraints: Sequence[str]) -> cst.Module:
    """Return the module with this SEARCH_SPACE and these CONSTRAINTS in place of those that it declares."""
    texts = {
        "SEARCH_SPACE": "{\n"
        + "".join(f'    "{name}": {list(members)!r},\n' for name, members in values.items())
        + "}",
        "CONSTRAINTS": "[\n" + "".join(f"    {constraint!r},\n" for constraint in constraints) + "]",
    }
    edits: dict[cst.CSTNode, Edit] = {}
    for statement in module.body:
        name = assigned_name(statement)
        if name in texts:
            edits[statement] = _put_statements(f"{name} = {texts.pop(name)}\n")
    missing = "".join(f"{name} = {text}\n" for name, text in texts.items() if text not in ("{\n}", "[\n]"))
    module = edited(module, edits)
    return insert_before_definitions(module, missing, apart=False) if missing else module
