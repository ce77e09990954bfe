"""Let the loads of a loop's next steps run while one step computes."""

from __future__ import annotations

import libcst as cst

from ....core import Parameter
from ....core.expressions import Expression
from ...analysis.source import expression
from ...analysis.template import matches
from ...analysis.tree import calls_in, find_all
from ...analysis.triton import SHARED_KIB, Launch, TritonKernel, axes_of
from ..rule import Change, Rewritten, require, rule

STAGES = (1, 2, 3, 4, 5, 6, 8)


@rule("memory", "streams", TritonKernel.read).because(
    "the loads of the next steps are under way while one step computes"
)
def pipelined_loads(kernel: TritonKernel, change: Change) -> Rewritten:
    """Give loops without products a number of stages: `num_stages` of the launch pipelines only loops with `tl.dot`.

    Takes innermost loops with a step that load. Stages are a hint to the compiler and change no result; their buffers
    must fit into shared memory, which a constraint says where the block's size is made of the file's constants.
    """
    stages = change.fresh("LOAD_STAGES")
    limits: list[str] = []

    def pipeline(launch: Launch, change: Change) -> None:
        loops = [] if launch.function.has_products else _loops(launch)
        require(loops, "no innermost loop with a step loads without products")
        for loop in loops:
            change.edit(loop.iter, lambda call: call.with_changes(func=expression("tl.range")))
            change.add_arguments(loop.iter, {"num_stages": stages})
        change.add_parameters(launch.function.node, constants=[stages])
        change.add_arguments(launch.node, {stages: stages})
        axes = axes_of(launch)
        loads = max(len(calls_in(loop, ".load")) for loop in loops)
        if axes is not None and all(axis in change.kernel.config or axis.isdigit() for axis in axes):
            block = " * ".join(axes) or "1"
            # N stages have N - 1 buffers: what one step uses is in registers.
            limits.append(f"{block} * {4 * loads} * ({stages} - 1) <= {SHARED_KIB} * 1024")

    change.each(kernel.launched_once(), pipeline)
    fitting = [n for n in STAGES if all(Expression(limit)({**change.kernel.config, stages: n}) for limit in limits)]
    require(max(fitting) > 1, "two stages of the block do not fit into shared memory")
    change.add(Parameter(stages, STAGES, min(4, max(fitting))), fitting, limits)
    return change.rewritten("pipelined the loads of loops without products")


def _loops(launch: Launch) -> list[cst.For]:
    """Return the innermost loops over a range with a step, and no stages yet, that load."""
    steps = ("range(q_start, q_stop, q_step)", "tl.range(q_start, q_stop, q_step)")
    return [
        loop
        for loop in launch.function.loops
        if matches(loop.iter, *steps) and len(find_all(loop, cst.For)) == 1 and calls_in(loop, "tl.load")
    ]
