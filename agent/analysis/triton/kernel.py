"""Reads a Triton kernel file, its `@triton.jit` functions and the launches of them; writes launches anew.

It reads the shipped kernels' form and that of first kernels from torch's compiler (docs/first_kernels.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TypeVar

import libcst as cst
import libcst.matchers as m

from ....core import PythonKernel, Target
from ....core.languages import TRITON
from ..applicability import OtherLanguageError, need, require
from ..change import Change, with_arguments
from ..source import code, expression, names, put, tree_and_names
from ..template import matches
from ..tree import calls_in, edited, find_all, named, only_line
from .function import Function

S = TypeVar("S", bound=cst.CSTNode)
PROGRAM = "tl.program_id(0)"
GROUPED = ("pid_0_grouped", "pid_1_grouped")
"""Names of a program's numbers on both axes, in the order that the rule grouped-order writes."""
_COUNT = "multiprocessors"
_SOURCE = """
def multiprocessors(device: torch.device) -> int:
    if device.type != "cuda":
        return 2  # the interpreter's programs run one after the other
    return torch.cuda.get_device_properties(device).multi_processor_count
"""


@dataclass(frozen=True, eq=False)
class Launch:
    """A call `function[grid](arguments, num_warps=...)` inside of ModelNew."""

    function: Function
    node: cst.Call
    host: cst.FunctionDef
    statement: cst.BaseStatement
    """The statement that contains it. Preparations on the host are inserted before it."""
    arguments: Mapping[str, cst.BaseExpression]
    """Arguments by parameter of the function, without those at their defaults."""
    options: Mapping[str, cst.BaseExpression]
    """The keywords that are not parameters: `num_warps`, `num_stages`, `maxnreg`."""
    grid_node: cst.BaseExpression
    """The grid as the launch has it: often a name."""
    grid: tuple[cst.BaseExpression, ...] | None
    """The grid's axes, also if it is a name that is assigned once; None for a function or another expression."""

    @property
    def stands_alone(self) -> bool:
        """Whether the launch is a statement of its own."""
        line = only_line(self.statement)
        return isinstance(line, cst.Expr) and line.value is self.node

    def require_alone(self) -> None:
        """Raise NotApplicableError unless the launch is a statement of its own."""
        require(self.stands_alone, "the launch is not a statement of its own")

    @cached_property
    def texts(self) -> Mapping[str, str]:
        """The arguments as text, by parameter."""
        return {name: code(value) for name, value in self.arguments.items()}

    @cached_property
    def axes(self) -> list[str]:
        """The axes of the grid as text; empty if unknown."""
        return [code(axis) for axis in self.grid or ()]

    def constant(self, parameter: str) -> str | None:
        """Return the module's constant that a parameter or an option gets; None for anything else."""
        value = self.arguments.get(parameter, self.options.get(parameter))
        return value.value if isinstance(value, cst.Name) and value.value.isupper() else None

    @property
    def knows_program_zero_alone(self) -> bool:
        """Whether the grid has one axis, which the function uses by `tl.program_id(0)` only."""
        calls = self.function.calls("program_id", "num_programs")
        return len(self.axes) == 1 and bool(calls) and all(matches(call, PROGRAM) for call in calls)

    def tensor(self) -> str:
        """Return the name on the host of a tensor that the function loads or stores. Raises NotApplicableError."""
        calls = self.function.calls("load", "store")
        pointers = names(*(call.args[0].value for call in calls))
        found = (
            argument.value
            for name, argument in self.arguments.items()
            if isinstance(argument, cst.Name) and name in pointers
        )
        return need(next(found, None), "no name of the host is a tensor that the function loads or stores")

    def relaunched(self, name: str, values: Mapping[str, str], grid: str | None = None) -> cst.Call:
        """Return the call with another function's name, and with these arguments, given or new, by parameter or option.

        `grid`, a tuple's text, is another grid.
        """
        left, arguments = dict(values), []
        for position, arg in enumerate(self.node.args):
            keyword = arg.keyword.value if arg.keyword else "".join(self.function.parameters[position : position + 1])
            if keyword in left:
                arg = arg.with_changes(value=expression(left.pop(keyword)))
            arguments.append(arg)
        subscript = cst.ensure_type(self.node.func, cst.Subscript).with_changes(value=cst.Name(name))
        if grid is not None:
            subscript = subscript.with_changes(slice=[cst.SubscriptElement(cst.Index(expression(grid)))])
        changed = with_arguments(left)(self.node.with_changes(func=subscript, args=arguments))
        return cst.ensure_type(changed, cst.Call)


@dataclass(frozen=True)
class TritonKernel:
    """A Triton kernel for CUDA, read for rules."""

    source: PythonKernel
    module: cst.Module

    @classmethod
    def read(cls, kernel: PythonKernel) -> TritonKernel:
        """Return the file, read. Raises NotApplicableError for another language or target."""
        if kernel.language != TRITON or kernel.target is not Target.CUDA:
            raise OtherLanguageError("not Triton for CUDA")
        return _read(kernel, tree_and_names(kernel)[0])

    @cached_property
    def functions(self) -> Mapping[str, Function]:
        """The functions whose only decorator is `@triton.jit`, by name: launches alone decide their parameters."""
        return {node.name.value: Function(node) for node in jitted(self.module)}

    @cached_property
    def launches(self) -> Sequence[Launch]:
        """The launches of these functions, in the order of the text."""
        hosts = [host for host in find_all(self.module, cst.FunctionDef) if host.name.value not in self.functions]
        return [launch for host in hosts for launch in self._launches_in(host)]

    def launched_once(self) -> Sequence[Launch]:
        """Return the launches of functions that have one launch and no other call in the file."""
        called = {code(call.func) for call in find_all(self.module, cst.Call, m.Call(func=m.Name()))}
        launched = [launch.function.name for launch in self.launches]
        once = [name for name in launched if launched.count(name) == 1 and name not in called]
        return [launch for launch in self.launches if launch.function.name in once]

    def uses_only_here(self, launch: Launch, parameter: str) -> bool:
        """Return whether only launch arguments depend on a parameter's value: no grid, nothing else."""
        if isinstance(launch.arguments.get(parameter), cst.Integer):
            return True
        constant = launch.constant(parameter)
        if constant is None:
            return False
        given = [arg for item in self.launches for arg in item.node.args]
        plain = sum(isinstance(arg.value, cst.Name) and arg.value.value == constant for arg in given)
        keywords = sum(arg.keyword is not None and arg.keyword.value == constant for arg in given)
        classes = [statement for statement in self.module.body if isinstance(statement, cst.ClassDef)]
        return sum(len(named(cls, constant)) for cls in classes) == plain + keywords

    def _launches_in(self, host: cst.FunctionDef) -> Iterator[Launch]:
        assigned: dict[str, list[cst.BaseExpression]] = {}
        for node in find_all(host, cst.Assign, m.Assign(targets=[m.AssignTarget(m.Name())])):
            assigned.setdefault(code(node.targets[0].target), []).append(node.value)
        calls = m.Call(func=m.Subscript(value=m.Name(), slice=[m.AtLeastN(n=1)]))
        lines = find_all(host, cst.SimpleStatementLine)
        for statement, call in ((line, call) for line in lines for call in find_all(line, cst.Call, calls)):
            subscript = cst.ensure_type(call.func, cst.Subscript)
            function = self.functions.get(code(subscript.value))
            indices = [part.slice.value for part in subscript.slice if isinstance(part.slice, cst.Index)]
            if function is None or any(arg.star for arg in call.args) or len(indices) != len(subscript.slice):
                continue
            plain = [arg.value for arg in call.args if arg.keyword is None]
            keywords = {arg.keyword.value: arg.value for arg in call.args if arg.keyword is not None}
            arguments = dict(zip(function.parameters, plain, strict=False))
            arguments |= {name: value for name, value in keywords.items() if name in function.parameters}
            options = {name: value for name, value in keywords.items() if name not in function.parameters}
            # `function[a, b](...)` and `function[(a, b)](...)` are the same.
            axes: tuple[cst.BaseExpression, ...] | None = tuple(indices)
            if len(indices) == 1:
                values = assigned.get(code(indices[0]), ())
                (grid,) = values if len(values) == 1 else indices
                axes = tuple(element.value for element in grid.elements) if isinstance(grid, cst.Tuple) else None
            yield Launch(function, call, host, statement, arguments, options, indices[0], axes)


def jitted(module: cst.Module) -> list[cst.FunctionDef]:
    """Return a module's functions whose only decorator is `@triton.jit`, with options or without."""
    found = [node for node in module.body if isinstance(node, cst.FunctionDef) and len(node.decorators) == 1]
    return [node for node in found if matches(node.decorators[0].decorator, "triton.jit", "triton.jit(q__)")]


def of_program(node: S, program: str) -> S:
    """Return code with another expression for `tl.program_id(0)`."""
    calls = [call for call in calls_in(node, "tl.program_id") if matches(call, PROGRAM)]
    return edited(node, {call: put(program) for call in calls})


def multiprocessors_of(kernel: TritonKernel, change: Change) -> str:
    """Return the name of the file's function that counts a device's multiprocessors, which is added if missing."""
    if any(
        isinstance(statement, cst.FunctionDef) and statement.name.value == _COUNT for statement in kernel.module.body
    ):
        return _COUNT
    name = change.fresh(_COUNT)
    change.helper(_SOURCE.replace(_COUNT, name))
    return name


@lru_cache(maxsize=16)
def _read(kernel: PythonKernel, module: cst.Module) -> TritonKernel:
    """Every rule asks the same of the same kernel. The tree is that of `Change`, where edits find their nodes."""
    return TritonKernel(kernel, module)
