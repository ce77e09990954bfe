"""Make the numbers of a GPU launch parameters: warps, stages, threads."""

from __future__ import annotations

import libcst as cst

from ...core import Parameter, PythonKernel, Target
from ...core.languages import TRITON
from ..analysis.applicability import OtherLanguageError
from ..analysis.source import code, tree_and_names
from ..analysis.tree import find_all
from ..analysis.triton import jitted
from .rule import Change, Rewritten, require, rule

CHOICES = {
    "NUM_WARPS": (1, 2, 4, 8, 16),
    "NUM_STAGES": (1, 2, 3, 4, 5),
    "THREADS": (64, 128, 256, 512),
}
DEFAULTS = {"num_warps": 4, "num_stages": 3}
"""Triton's defaults of its launch options."""
LAUNCHES = {"num_warps": "NUM_WARPS", "num_stages": "NUM_STAGES"}
NUMBERS = {"T.Kernel": {"threads": "THREADS"}, "T.Pipelined": {"num_stages": "NUM_STAGES"}}
"""The constants for keywords of a launch of Triton, and of functions of TileLang."""


def _cuda_module(kernel: PythonKernel) -> cst.Module:
    if kernel.target is not Target.CUDA:
        raise OtherLanguageError("not for CUDA")
    return tree_and_names(kernel)[0]


@rule("parallelism", "both", _cuda_module).because(
    "occupancy and the depth of the pipeline decide how well memory latency is hidden"
)
def launch_parameters(module: cst.Module, change: Change) -> Rewritten:
    """Turn literals such as `num_warps=4` into constants with values to search; Triton launches also get the ones
    that they leave at their default.

    These numbers change the speed, never the result. A launch with `**options` is left alone: they may be in there.
    """
    functions = [item.name.value for item in jitted(module)] if change.kernel.language == TRITON else []
    found: dict[str, int] = {}

    def name_for(constant: str, value: int) -> str | None:
        """Return the constant, where its name is free, or was introduced for the same value."""
        free = constant not in change.taken and found.setdefault(constant, value) == value
        return constant if free else None

    for call in find_all(module, cst.Call):
        given = {arg.keyword.value: arg.value for arg in call.args if arg.keyword}
        launched = isinstance(call.func, cst.Subscript) and code(call.func.value) in functions
        numbers = LAUNCHES if launched else NUMBERS.get(code(call.func), {})
        if launched and any(arg.star == "**" for arg in call.args):
            continue
        for keyword, literal in given.items():
            constant = numbers.get(keyword)
            if constant and isinstance(literal, cst.Integer) and name_for(constant, literal.evaluated_value):
                change.put(literal, constant)
        left_out = {keyword: default for keyword, default in DEFAULTS.items() if launched and keyword not in given}
        added = {keyword: name_for(keyword.upper(), default) for keyword, default in left_out.items()}
        change.add_arguments(call, {keyword: constant for keyword, constant in added.items() if constant})
    require(found, "no launch has warps, stages or threads that are literals or left out")
    for constant, value in found.items():
        change.add(Parameter(constant, sorted({*CHOICES[constant], value}), value))
    return change.rewritten(f"made {', '.join(found)} parameters of the launch")
