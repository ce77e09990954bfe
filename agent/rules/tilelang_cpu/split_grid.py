"""Split the grid of a CPU kernel over threads."""

from __future__ import annotations

import libcst as cst
import libcst.matchers as m

from ....core import Parameter
from ...analysis.change import with_parameters
from ...analysis.source import code, expression, names, statements
from ...analysis.template import matches
from ...analysis.tilelang import accesses, cpu_tilelang, is_prim_func
from ...analysis.tree import calls_in, find_all, only_line, plain_targets
from ..rule import Change, Rewritten, need, need_a, require, rule

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


@rule("parallelism", "both", cpu_tilelang).because("the compiled kernel runs on one core while the reference uses all")
def split_grid(module: cst.Module, change: Change) -> Rewritten:
    """Give each thread a contiguous part of the grid's first axis.

    The blocks of a grid are independent, so this is valid wherever no two blocks write the same element. Atomics
    forbid it, and so does a write whose index does not depend on the axis. A first axis of extent 1 cannot be split.
    """
    cores = change.machine.cores
    require(cores > 1, "the machine has one core")
    change.require_free("THREADS", "POOL", "over_threads")
    builders = [
        function for function in find_all(module, cst.FunctionDef) if any(map(is_prim_func, function.body.body))
    ]
    done = change.each(builders, _split, "no function builds a prim_func")
    change.add_import("from concurrent.futures import ThreadPoolExecutor\n")
    change.helper(f"THREADS = {cores}\nPOOL = ThreadPoolExecutor(max_workers={cores - 1})\n")
    change.helper(HELPER)
    change.declare(Parameter("THREADS", sorted({cores, *(1 << i for i in range(cores.bit_length()))}), cores))
    return change.rewritten(f"split the grid of {', '.join(done)} over {cores} threads")


def _split(builder: cst.FunctionDef, change: Change) -> str:
    function = next(
        statement
        for statement in builder.body.body
        if isinstance(statement, cst.FunctionDef) and is_prim_func(statement)
    )
    kernel, result = function.name.value, builder.body.body[-1]
    none = f"{kernel} is not one T.Kernel block"
    block = need_a(cst.With, function.body.body[-1], none)
    require(len(block.items) == len(function.body.body) == 1 and matches(block.items[0].item, "T.Kernel(q__)"), none)
    call, alias = need_a(cst.Call, block.items[0].item, none), need(block.items[0].asname, none)
    plain = not calls_in(block, "T.atomic_*") and call.args and not any(arg.keyword for arg in call.args)
    require(plain, f"{kernel} has atomics, or its grid has other arguments than its axes")
    extent = code(call.args[0].value)
    require(extent != "1", f"the first axis of the grid of {kernel} has one block")
    first = alias.name.elements[0].value if isinstance(alias.name, cst.Tuple) else alias.name
    apart = isinstance(first, cst.Name) and _writes_apart(block, first.value)
    require(apart, f"the blocks of {kernel} do not write apart along the first axis")
    compiled = _compiled(result, kernel)
    axis = code(first)
    part, step = change.fresh("part"), change.fresh(f"{axis}_in_part")
    chunk = f"T.ceildiv({extent}, THREADS)"
    # With these assumptions the compiler drops its checks for negative indices.
    prologue = f"T.assume({part} >= 0)\nT.assume({part} < THREADS)\n{axis} = {part} * {chunk} + {step}\n"
    guard = cst.If(test=expression(f"{axis} < {extent}"), body=block.body)
    change.put(first, step)
    change.put(call.args[0].value, chunk)
    change.put(block.body, cst.IndentedBlock(body=[*statements(prologue), guard]))
    change.edit(function, with_parameters([part], annotation="T.int32"))
    change.put_statements(result, statements(compiled))
    return kernel


def _compiled(statement: cst.CSTNode, kernel: str) -> str:
    """Write `return tilelang.compile(kernel, out_idx=..., ...)` with its outputs passed to over_threads."""
    none = f"{kernel} is not compiled and returned"
    call = need_a(cst.Call, need_a(cst.Return, only_line(statement), none).value, none)
    require(matches(call, "tilelang.compile(q_kernel, q__)", kernel=kernel), none)
    outputs = next((arg.value for arg in call.args if arg.keyword and arg.keyword.value == "out_idx"), None)
    outputs = need_a(cst.List, outputs, f"{kernel} is compiled without a list of outputs")
    kept = [arg for arg in call.args if not (arg.keyword and arg.keyword.value == "out_idx")]
    kept[-1] = kept[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
    compiled, length = code(call.with_changes(args=kept)), f"len({kernel}.params) - 1"
    indices = ", ".join(f"{code(e.value)} % ({length})" for e in outputs.elements)
    return f"return over_threads({compiled}, {{{indices}}})\n"


def _writes_apart(block: cst.With, axis: str) -> bool:
    """Return whether every write outside the block's own buffers depends on its axis."""
    own = plain_targets(*find_all(block, cst.Assign, m.Assign(value=m.Call(func=m.Attribute(m.Name("T"))))))
    follows = {axis}
    plain = find_all(block, cst.Assign, m.Assign(targets=[m.AssignTarget(m.Name())]))
    for _ in plain:
        follows |= {code(n.targets[0].target) for n in plain if names(n.value) & follows}
    written = [access for access in accesses(block) if access.write and access.buffer not in own]
    return all(any(names(expression(part)) & follows for part in a.index if part != "*") for a in written)
