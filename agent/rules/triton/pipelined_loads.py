"""Let the loads of a loop's next steps run while one step computes."""

from __future__ import annotations

import libcst as cst
import libcst.matchers as m

from ....core import Parameter
from ....core.expressions import Expression
from ...analysis.applicability import require
from ...analysis.change import Change, Rewritten
from ...analysis.edit import with_arguments
from ...analysis.search import find_all
from ...analysis.source import expression
from ...analysis.triton import RANGE, SHARED_KIB, Launch, TritonKernel, has_products, searched_axes
from ..rule import rule

STAGES = (1, 2, 3, 4, 5, 6, 8)


@rule(
    "pipelined-loads",
    category="memory",
    work="streams",
    why="the loads of the next steps are under way while one step computes",
    reads=TritonKernel.read,
)
def pipelined_loads(kernel: TritonKernel, change: Change) -> Rewritten:
    """Give loops without products a number of stages: `num_stages` of the launch pipelines only loops with `tl.dot`.

    Takes innermost loops with a step that load. Stages are a hint to the compiler and change no result; their buffers
    must fit into shared memory, which a constraint says where the block's size is made of the file's constants.
    """
    stages = change.fresh("LOAD_STAGES")
    limits: list[str] = []

    def pipeline(launch: Launch, change: Change) -> None:
        loops = [] if has_products(launch) else _loops(launch)
        require(loops, "no innermost loop with a step loads without products")
        for loop in loops:
            change.edit(loop.iter, lambda node: _staged(node, stages))
        change.add_parameters(launch.function.node, constants=[stages])
        change.add_arguments(launch.node, {stages: stages})
        block = searched_axes(launch, change.kernel.config)
        loads = max(len(find_all(loop, m.Call(func=m.Attribute(attr=m.Name("load"))))) for loop in loops)
        if block is not None:
            # N stages have N - 1 buffers: what one step uses is in registers.
            limits.append(f"{block} * {4 * loads} * ({stages} - 1) <= {SHARED_KIB} * 1024")

    change.each(kernel.launched_once(), pipeline)
    fitting = [n for n in STAGES if all(Expression(limit)({**change.kernel.config, stages: n}) for limit in limits)]
    require(max(fitting) > 1, "two stages of the block do not fit into shared memory")
    change.add(Parameter(stages, STAGES, min(4, max(fitting))), fitting, limits)
    return change.rewritten("pipelined the loads of loops without products")


def _loops(launch: Launch) -> list[cst.For]:
    """Return the innermost loops over a range with a step, and no stages yet, that load."""
    call = m.Call(func=RANGE, args=[m.Arg(keyword=None)] * 3)
    return [
        loop
        for loop in launch.function.loops
        if m.matches(loop.iter, call)
        and len(find_all(loop, m.For())) == 1
        and find_all(loop, m.Call(func=m.Attribute(m.Name("tl"), m.Name("load"))))
    ]


def _staged(node: cst.CSTNode, stages: str) -> cst.CSTNode:
    call = cst.ensure_type(node, cst.Call)
    staged = with_arguments({"num_stages": stages})(call.with_changes(func=expression("tl.range")))
    return cst.ensure_type(staged, cst.Call)
