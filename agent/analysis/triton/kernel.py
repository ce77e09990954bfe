"""Reads a Triton kernel file: its `@triton.jit` functions, and the launches of them.

It reads the shipped kernels' form and that of first kernels from torch's compiler (docs/first_kernels.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import libcst as cst
import libcst.matchers as m

from ....core import PythonKernel, Target
from ....core.languages import TRITON
from ..applicability import OtherLanguage
from ..search import find_all
from ..source import code, tree_and_names
from .function import Function

_JIT = m.Attribute(m.Name("triton"), m.Name("jit"))


@dataclass(frozen=True, eq=False)
class Launch:
    """A call `function[grid](arguments, num_warps=...)` inside of ModelNew."""

    function: Function
    node: cst.Call
    host: cst.FunctionDef
    statement: cst.BaseStatement
    """The statement that it stands in, where hosts' preparations go before."""
    arguments: Mapping[str, cst.BaseExpression]
    """By parameter of the function; those that the launch leaves at their default are absent."""
    options: Mapping[str, cst.BaseExpression]
    """The keywords that are no parameters: `num_warps`, `num_stages`, `maxnreg`."""
    grid_node: cst.BaseExpression
    """The grid as the launch has it: often a name."""
    grid: tuple[cst.BaseExpression, ...] | None
    """Its axes, through a name that is assigned once; None for a function or another expression."""

    @property
    def stands_alone(self) -> bool:
        """Whether the launch is a statement of its own."""
        match self.statement:
            case cst.SimpleStatementLine(body=[cst.Expr(value=value)]):
                return value is self.node
        return False

    def constant(self, parameter: str) -> str | None:
        """Return the module's constant that a parameter or an option gets; None for anything else."""
        value = self.arguments.get(parameter, self.options.get(parameter))
        return value.value if isinstance(value, cst.Name) and value.value.isupper() else None


@dataclass(frozen=True)
class TritonKernel:
    """A Triton kernel for CUDA, read for rules."""

    source: PythonKernel
    module: cst.Module

    @classmethod
    def read(cls, kernel: PythonKernel) -> TritonKernel:
        """Return the file, read. Raises NotApplicable for another language or target."""
        if kernel.language != TRITON or kernel.target is not Target.CUDA:
            raise OtherLanguage("not Triton for CUDA")
        return cls(kernel, tree_and_names(kernel)[0])

    @cached_property
    def functions(self) -> Mapping[str, Function]:
        """The functions whose only decorator is `@triton.jit`, by name: launches alone decide their parameters."""
        found = [node for node in self.module.body if isinstance(node, cst.FunctionDef) and len(node.decorators) == 1]
        jitted = [node for node in found if m.matches(node.decorators[0].decorator, _JIT | m.Call(_JIT))]
        return {node.name.value: Function(node) for node in jitted}

    @cached_property
    def launches(self) -> Sequence[Launch]:
        """The launches of these functions, in the order of the text."""
        found: list[Launch] = []
        for function in find_all(self.module, m.FunctionDef()):
            assert isinstance(function, cst.FunctionDef)
            if function.name.value not in self.functions:
                self._launches_in(function, found)
        return found

    def launches_of(self, function: Function) -> Sequence[Launch]:
        """Return the launches of one function."""
        return [launch for launch in self.launches if launch.function is function]

    def launched_once(self) -> Sequence[Launch]:
        """Return the launches of functions that are launched at one place and called nowhere else in the file."""
        return [
            launch
            for launch in self.launches
            if len(self.launches_of(launch.function)) == 1 and launch.function.name not in self._called
        ]

    @cached_property
    def _called(self) -> set[str]:
        """Names that are called without a grid."""
        return {code(cst.ensure_type(match, cst.Call).func) for match in find_all(self.module, m.Call(func=m.Name()))}

    def _launches_in(self, host: cst.FunctionDef, found: list[Launch]) -> None:
        assigned: dict[str, list[cst.BaseExpression]] = {}
        for node in find_all(host, m.Assign(targets=[m.AssignTarget(m.Name())])):
            assert isinstance(node, cst.Assign)
            assigned.setdefault(code(node.targets[0].target), []).append(node.value)
        for statement in find_all(host, m.SimpleStatementLine()):
            assert isinstance(statement, cst.SimpleStatementLine)
            for call in find_all(statement, m.Call(func=m.Subscript(value=m.Name(), slice=[m.AtLeastN(n=1)]))):
                assert isinstance(call, cst.Call)
                launch = self._launch(host, statement, call, assigned)
                if launch is not None:
                    found.append(launch)

    def _launch(
        self,
        host: cst.FunctionDef,
        statement: cst.BaseStatement,
        call: cst.Call,
        assigned: Mapping[str, list[cst.BaseExpression]],
    ) -> Launch | None:
        subscript = cst.ensure_type(call.func, cst.Subscript)
        function = self.functions.get(cst.ensure_type(subscript.value, cst.Name).value)
        if function is None or any(arg.star for arg in call.args):
            return None
        plain = [arg.value for arg in call.args if arg.keyword is None]
        keywords = {arg.keyword.value: arg.value for arg in call.args if arg.keyword is not None}
        arguments = dict(zip(function.parameters, plain, strict=False))
        arguments |= {name: value for name, value in keywords.items() if name in function.parameters}
        options = {name: value for name, value in keywords.items() if name not in function.parameters}
        indices = [part.slice.value for part in subscript.slice if isinstance(part.slice, cst.Index)]
        if len(indices) != len(subscript.slice):
            return None
        # `function[a, b](...)` and `function[(a, b)](...)` are the same.
        axes: tuple[cst.BaseExpression, ...] | None = tuple(indices)
        if len(indices) == 1:
            (grid,) = indices
            if isinstance(grid, cst.Name) and len(assigned.get(grid.value, ())) == 1:
                (grid,) = assigned[grid.value]
            axes = tuple(element.value for element in grid.elements) if isinstance(grid, cst.Tuple) else None
        return Launch(function, call, host, statement, arguments, options, indices[0], axes)
