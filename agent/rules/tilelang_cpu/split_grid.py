"""Split the grid of a CPU kernel over threads."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst
import libcst.matchers as m

from ....core import Parameter
from ...analysis.applicability import require
from ...analysis.change import Change, Rewritten
from ...analysis.search import find_all
from ...analysis.source import code, expression, fresh, insert_before_definitions, names, statements
from ...analysis.tilelang import accesses, cpu_tilelang, is_prim_func
from ..rule import rule

HELPER = '''
def over_threads(kernel, outputs):
    """A function that runs the THREADS parts of a kernel's grid at the same time.

    Compiled code runs without the interpreter's lock. The kernel's last argument is the part.
    """
    params = kernel.params[:-1]

    def run(*inputs):
        given = iter(inputs)
        tensors = [
            torch.empty(tuple(map(int, p.shape)), dtype=p.torch_dtype()) if i in outputs else next(given)
            for i, p in enumerate(params)
        ]
        others = [POOL.submit(kernel, *tensors, part) for part in range(1, THREADS)]
        kernel(*tensors, 0)
        for other in others:
            other.result()
        results = [tensors[i] for i in sorted(outputs)]
        return results[0] if len(results) == 1 else results

    return run
'''


@rule(
    "split-grid",
    category="parallelism",
    work="both",
    why="the compiled kernel runs on one core while the reference uses all",
    reads=cpu_tilelang,
)
def split_grid(module: cst.Module, change: Change) -> Rewritten:
    """Give each thread a contiguous part of the grid's first axis.

    The blocks of a grid are independent, so this is valid wherever no two blocks write the same element. Atomics
    forbid it, and so does a write whose index does not depend on the axis. A first axis of extent 1 cannot be split.
    """
    cores = change.machine.cores
    require(cores > 1, "the machine has one core")
    change.require_free("THREADS", "POOL", "over_threads")
    splitter = _Splitter(change.taken)
    module = cst.ensure_type(module.visit(splitter), cst.Module)
    require(splitter.done, "no builder compiles one `T.Kernel` block whose blocks write apart along the first axis")
    constants = f"THREADS = {cores}\nPOOL = ThreadPoolExecutor(max_workers={cores - 1})\n"
    module = insert_before_definitions(insert_before_definitions(module, HELPER.lstrip()), constants)
    change.module = _import_pool(module)
    change.declare(Parameter("THREADS", powers_of_two(1, cores), cores))
    return change.rewritten(f"split the grid of {', '.join(splitter.done)} over {cores} threads")


def powers_of_two(low: int, high: int) -> Sequence[int]:
    """Return 1, 2, 4, ... within the bounds, and `high` itself."""
    values = {2**i for i in range(high.bit_length() + 1) if low <= 2**i <= high}
    return sorted(values | {high})


class _Splitter(cst.CSTTransformer):
    """Rewrites each builder whose prim_func is one T.Kernel block and whose result is compiled directly."""

    def __init__(self, taken: set[str]) -> None:
        self.taken = taken
        self.done: list[str] = []

    def leave_FunctionDef(self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef) -> cst.FunctionDef:
        if not isinstance(updated_node.body, cst.IndentedBlock):
            return updated_node
        body = list(updated_node.body.body)
        for position, statement in enumerate(body):
            if isinstance(statement, cst.FunctionDef) and is_prim_func(statement):
                split = self._split(statement)
                compiled = self._compile_call(body[-1], statement.name.value)
                if split is None or compiled is None:
                    return updated_node
                body[position], body[-1] = split, compiled
                self.done.append(statement.name.value)
                return updated_node.with_changes(body=updated_node.body.with_changes(body=body))
        return updated_node

    def _split(self, function: cst.FunctionDef) -> cst.FunctionDef | None:
        assert isinstance(function.body, cst.IndentedBlock)
        block = function.body.body[-1]
        if len(function.body.body) != 1 or not isinstance(block, cst.With) or len(block.items) != 1:
            return None
        item = block.items[0]
        call, alias = item.item, item.asname
        if not m.matches(call, m.Call(func=m.Attribute(m.Name("T"), m.Name("Kernel")))) or alias is None:
            return None
        assert isinstance(call, cst.Call) and isinstance(block.body, cst.IndentedBlock)
        if "T.atomic" in code(block) or not call.args or any(arg.keyword for arg in call.args):
            return None
        extent = code(call.args[0].value)
        if extent == "1":
            return None
        axes = alias.name.elements if isinstance(alias.name, cst.Tuple) else None
        first = axes[0].value if axes else alias.name
        if not isinstance(first, cst.Name):
            return None
        if not _writes_apart(block, first.value):
            return None
        part, step = fresh("part", self.taken), fresh(f"{first.value}_in_part", self.taken)
        chunk = f"T.ceildiv({extent}, THREADS)"
        new_first = cst.Name(step)
        name: cst.BaseAssignTargetExpression = new_first
        if axes and isinstance(alias.name, cst.Tuple):
            name = alias.name.with_changes(elements=[axes[0].with_changes(value=new_first), *axes[1:]])
        arguments = [call.args[0].with_changes(value=expression(chunk)), *call.args[1:]]
        # With these assumptions the compiler drops its checks for negative indices.
        prologue = statements(
            f"T.assume({part} >= 0)\nT.assume({part} < THREADS)\n{first.value} = {part} * {chunk} + {step}\n"
        )
        guard = cst.If(test=expression(f"{first.value} < {extent}"), body=block.body)
        new_block = block.with_changes(
            items=[item.with_changes(item=call.with_changes(args=arguments), asname=alias.with_changes(name=name))],
            body=cst.IndentedBlock(body=[*prologue, guard]),
        )
        parameter = cst.Param(cst.Name(part), cst.Annotation(expression("T.int32")))
        params = [p.with_changes(comma=cst.MaybeSentinel.DEFAULT) for p in function.params.params]
        return function.with_changes(
            params=function.params.with_changes(params=[*params, parameter]),
            body=function.body.with_changes(body=[new_block]),
        )

    def _compile_call(
        self, statement: cst.BaseStatement | cst.BaseSmallStatement, kernel: str
    ) -> cst.BaseStatement | None:
        """Return `return tilelang.compile(kernel, out_idx=..., ...)` with its outputs passed to over_threads."""
        if not isinstance(statement, cst.SimpleStatementLine) or not isinstance(statement.body[0], cst.Return):
            return None
        call = statement.body[0].value
        if call is None or not m.matches(call, m.Call(func=m.Attribute(m.Name("tilelang"), m.Name("compile")))):
            return None
        assert isinstance(call, cst.Call)
        outputs = next((arg.value for arg in call.args if arg.keyword and arg.keyword.value == "out_idx"), None)
        first = call.args[0].value
        if not isinstance(outputs, cst.List) or not (isinstance(first, cst.Name) and first.value == kernel):
            return None
        kept = [arg for arg in call.args if not (arg.keyword and arg.keyword.value == "out_idx")]
        kept[-1] = kept[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
        compiled = code(call.with_changes(args=kept))
        length = f"len({kernel}.params) - 1"
        indices = ", ".join(f"{code(e.value)} % ({length})" for e in outputs.elements)
        return statements(f"return over_threads({compiled}, {{{indices}}})\n")[0]


def _writes_apart(block: cst.With, axis: str) -> bool:
    """Return whether every write outside the block's own buffers depends on its axis."""
    own = {
        node.targets[0].target.value
        for node in find_all(block, m.Assign(value=m.Call(func=m.Attribute(m.Name("T")))))
        if isinstance(node, cst.Assign) and isinstance(node.targets[0].target, cst.Name)
    }
    follows = {axis}
    plain = [n for n in find_all(block, m.Assign(targets=[m.AssignTarget(m.Name())])) if isinstance(n, cst.Assign)]
    for _ in plain:
        follows |= {code(n.targets[0].target) for n in plain if names(n.value) & follows}
    written = [access for access in accesses(block) if access.write and access.buffer not in own]
    return all(any(names(expression(part)) & follows for part in a.index if part != "*") for a in written)


def _import_pool(module: cst.Module) -> cst.Module:
    """Import ThreadPoolExecutor among the other imports."""
    position = next(
        i for i, s in enumerate(module.body) if m.matches(s, m.SimpleStatementLine(body=[m.Import() | m.ImportFrom()]))
    )
    new = statements("from concurrent.futures import ThreadPoolExecutor\n")
    old = module.body[position]
    assert isinstance(old, cst.SimpleStatementLine)
    new[0] = new[0].with_changes(leading_lines=old.leading_lines)
    rest = [old.with_changes(leading_lines=[]), *module.body[position + 1 :]]
    return module.with_changes(body=[*module.body[:position], *new, *rest])
