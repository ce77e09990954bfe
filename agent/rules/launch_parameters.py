"""Make the numbers of a GPU launch parameters: warps, stages, threads."""

from __future__ import annotations

import libcst as cst
import libcst.matchers as m

from ...core import Parameter, PythonKernel, Target
from ...core.languages import TRITON
from ..analysis.applicability import OtherLanguage, require
from ..analysis.change import Change, Rewritten
from ..analysis.edit import keyword_argument
from ..analysis.source import tree_and_names
from .rule import rule

CHOICES = {
    "NUM_WARPS": (1, 2, 4, 8, 16),
    "NUM_STAGES": (1, 2, 3, 4, 5),
    "THREADS": (64, 128, 256, 512),
}
TRITON_DEFAULTS = {"num_warps": 4, "num_stages": 3}


def _cuda_module(kernel: PythonKernel) -> cst.Module:
    if kernel.target is not Target.CUDA:
        raise OtherLanguage("not for CUDA")
    return tree_and_names(kernel)[0]


@rule(
    "launch-parameters",
    category="parallelism",
    work="both",
    why="occupancy and the depth of the pipeline decide how well memory latency is hidden",
    reads=_cuda_module,
)
def launch_parameters(module: cst.Module, change: Change) -> Rewritten:
    """Turn literals such as `num_warps=4` into constants with values to search; Triton launches also get the ones
    that they leave at their default.

    These numbers change the speed, never the result. A launch with `**options` is left alone: they may be in there.
    """
    lifter = _Lifter(_jitted(module) if change.kernel.language == TRITON else set(), change.taken)
    change.module = cst.ensure_type(module.visit(lifter), cst.Module)
    require(lifter.found, "no launch has warps, stages or threads that are literals or left out")
    for constant, value in lifter.found.items():
        change.add(Parameter(constant, sorted({*CHOICES[constant], value}), value))
    return change.rewritten(f"made {', '.join(lifter.found)} parameters of the launch")


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
        if any(arg.star == "**" for arg in call.args):
            return call
        call = self._lift(call, {"num_warps": "NUM_WARPS", "num_stages": "NUM_STAGES"})
        given = {arg.keyword.value for arg in call.args if arg.keyword}
        for keyword, default in TRITON_DEFAULTS.items():
            constant = keyword.upper()
            if keyword not in given and self._may(constant, default):
                call = call.with_changes(args=[*call.args, keyword_argument(keyword, constant)])
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
