"""Make the numbers of a GPU launch parameters: warps, stages, threads."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from ...core import Parameter, PythonKernel, Target
from ...core.languages import TRITON
from ..analysis.source import add_constant, tree_and_names
from .rule import Machine, Rewritten, with_source

CHOICES = {
    "NUM_WARPS": (1, 2, 4, 8, 16),
    "NUM_STAGES": (1, 2, 3, 4, 5),
    "THREADS": (64, 128, 256, 512),
}
TRITON_DEFAULTS = {"num_warps": 4, "num_stages": 3}


@dataclass(frozen=True)
class LaunchParameters:
    """Turn literals such as `num_warps=4` into constants with values to search; Triton launches also get the ones
    that they leave at their default.

    These numbers change the speed, never the result.
    """

    name = "launch-parameters"
    category = "parallelism"
    work = "both"
    why = "occupancy and the depth of the pipeline decide how well memory latency is hidden"

    def apply(self, kernel: PythonKernel, machine: Machine) -> Rewritten | None:
        """Return the kernel with launch parameters as constants, or None where it has none."""
        if kernel.target is not Target.CUDA:
            return None
        module, taken = tree_and_names(kernel)
        lifter = _Lifter(_jitted(module) if kernel.language == TRITON else set(), taken)
        module = module.visit(lifter)
        if not lifter.found:
            return None
        parameters = []
        for constant, value in reversed(lifter.found.items()):
            module = add_constant(module, constant, value)
            values = sorted({*CHOICES[constant], value})
            parameters.append(Parameter(constant, values, value))
        return Rewritten(
            with_source(kernel, module),
            f"made {', '.join(lifter.found)} parameters of the launch",
            tuple(reversed(parameters)),
        )


class _Lifter(cst.CSTTransformer):
    def __init__(self, jitted: set[str], taken: set[str]) -> None:
        self.jitted = jitted
        self.taken = taken
        self.found: dict[str, int] = {}

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:
        function = original_node.func.value if isinstance(original_node.func, cst.Subscript) else None
        if isinstance(function, cst.Name) and function.value in self.jitted:
            return self._triton_launch(updated_node)
        if m.matches(original_node.func, m.Attribute(m.Name("T"), m.Name("Kernel"))):
            return self._lift(updated_node, {"threads": "THREADS"})
        if m.matches(original_node.func, m.Attribute(m.Name("T"), m.Name("Pipelined"))):
            return self._lift(updated_node, {"num_stages": "NUM_STAGES"})
        return updated_node

    def _triton_launch(self, call: cst.Call) -> cst.Call:
        call = self._lift(call, {"num_warps": "NUM_WARPS", "num_stages": "NUM_STAGES"})
        given = {arg.keyword.value for arg in call.args if arg.keyword}
        for keyword, default in TRITON_DEFAULTS.items():
            constant = keyword.upper()
            if keyword in given or not self._may(constant, default):
                continue
            call = call.with_changes(args=[*call.args, _keyword(keyword, constant)])
        return call

    def _lift(self, call: cst.Call, constants: dict[str, str]) -> cst.Call:
        arguments = []
        for arg in call.args:
            constant = constants.get(arg.keyword.value) if arg.keyword else None
            if constant and isinstance(arg.value, cst.Integer) and self._may(constant, arg.value.evaluated_value):
                arg = arg.with_changes(value=cst.Name(constant))
            arguments.append(arg)
        return call.with_changes(args=arguments)

    def _may(self, constant: str, value: int) -> bool:
        """Return whether the name is free, or was introduced by this rule with the same value."""
        if constant in self.taken:
            return False
        return self.found.setdefault(constant, value) == value


def _jitted(module: cst.Module) -> set[str]:
    """Return the functions under @triton.jit whose launch parameters no other decorator sets."""
    jit = m.Decorator(
        m.Attribute(m.Name("triton"), m.Name("jit")) | m.Call(m.Attribute(m.Name("triton"), m.Name("jit")))
    )
    functions = [s for s in module.body if isinstance(s, cst.FunctionDef) and len(s.decorators) == 1]
    return {function.name.value for function in functions if m.matches(function.decorators[0], jit)}


def _keyword(name: str, value: str) -> cst.Arg:
    equal = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
    return cst.Arg(keyword=cst.Name(name), value=cst.Name(value), equal=equal)
