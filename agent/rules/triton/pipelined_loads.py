"""Let the loads of a loop's next steps run while one step computes."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from ....core import Parameter, PythonKernel
from ....core.expressions import Expression
from ...analysis.edit import Edit, declaring, edited, with_arguments, with_parameters
from ...analysis.search import find_all
from ...analysis.source import add_constant, expression, fresh
from ...analysis.triton.blocks import has_products, searched_axes
from ...analysis.triton.kernel import Launch, TritonFile
from ..rule import Machine, Rewritten, with_source

STAGES = (1, 2, 3, 4, 5, 6, 8)
SHARED_KIB = 227
"""Of a block, on sm_90."""
_RANGE = m.Name("range") | m.Attribute(m.Name("tl"), m.Name("range"))


@dataclass(frozen=True)
class PipelinedLoads:
    """Give loops without products a number of stages: `num_stages` of the launch pipelines only loops with `tl.dot`.

    Takes innermost loops with a step that load. Stages are a hint to the compiler and change no result; their buffers
    must fit into shared memory, which a constraint says where the block's size is made of the file's constants.
    """

    name = "pipelined-loads"
    category = "memory"
    work = "streams"
    why = "the loads of the next steps are under way while one step computes"

    def apply(self, kernel: PythonKernel, machine: Machine) -> Rewritten | None:
        """Return the kernel with stages in its loops, or None where no loop without products loads."""
        file = TritonFile.read(kernel)
        if file is None:
            return None
        stages = fresh("LOAD_STAGES", file.taken)
        edits: dict[cst.CSTNode, Edit] = {}
        constraints: list[str] = []
        for launch in file.launched_once():
            loops = [] if has_products(launch) else _loops(launch)
            if not loops:
                continue
            for loop in loops:
                edits[loop.iter] = lambda node: _staged(node, stages)
            edits[launch.function.node] = with_parameters([stages])
            edits[launch.node] = with_arguments({stages: stages})
            block = searched_axes(launch, kernel.config)
            loads = max(len(find_all(loop, m.Call(func=m.Attribute(attr=m.Name("load"))))) for loop in loops)
            if block is not None:
                # N stages have N - 1 buffers: what one step uses is in registers.
                constraints.append(f"{block} * {4 * loads} * ({stages} - 1) <= {SHARED_KIB} * 1024")
        if not edits:
            return None
        fitting = [n for n in STAGES if all(Expression(one)({**kernel.config, stages: n}) for one in constraints)]
        if max(fitting) == 1:
            return None
        start = min(4, max(fitting))
        module = add_constant(edited(file.module, edits), stages, start)
        module = declaring(kernel, module, [Parameter(stages, STAGES, start)], constraints)
        did = "pipelined the loads of loops without products"
        return Rewritten(with_source(kernel, module), did, (Parameter(stages, fitting, start),))


def _loops(launch: Launch) -> list[cst.For]:
    """Return the innermost loops over a range with a step, and no stages yet, that load."""
    call = m.Call(func=_RANGE, args=[m.Arg(keyword=None)] * 3)
    return [
        loop
        for loop in launch.function.loops
        if m.matches(loop.iter, call)
        and len(find_all(loop, m.For())) == 1
        and find_all(loop, m.Call(func=m.Attribute(m.Name("tl"), m.Name("load"))))
    ]


def _staged(node: cst.CSTNode, stages: str) -> cst.Call:
    call = cst.ensure_type(node, cst.Call)
    staged = with_arguments({"num_stages": stages})(call.with_changes(func=expression("tl.range")))
    assert isinstance(staged, cst.Call)
    return staged
