"""Replace three chained products of split operands by one product over three times the length."""

from __future__ import annotations

import libcst as cst

from ...analysis.source import code, expression, fresh, names, operand, put, statements, substitute
from ...analysis.tree import Edit, block_of, edited
from ...analysis.triton import Chain, Function, TritonKernel, assumption, chain_of
from ..rule import Change, Rewritten, rule


@rule("compute", "products", TritonKernel.read).because(
    "chained products of one step wait for each other; one product per step keeps the tensor cores' pipe full"
)
def joined_products(kernel: TritonKernel, change: Change) -> Rewritten:
    """Sum low * high, then high * low, then high * high, in one loop of three times as many steps with one product.

    Needs three products in a loop over one range that sum into the same accumulator, whose operands are two loads
    each, the same address and one at a distance. The loop may carry the accumulator, and pointers that each step moves
    by the same amount. The terms are the same as before in another order: all those of low parts come first, where
    they are still large compared with the sum.
    """
    launches = {launch.function: launch for launch in kernel.launched_once()}

    def join(function: Function, change: Change) -> None:
        chain = chain_of(function)
        runs = assumption(launches[function], chain.loop) if function in launches else None
        new = _loop(chain, {*function.parameters, *names(function.node)}, runs is not None)
        change.put_statements(chain.loop, new)
        # What is said of the loop as it was is now said of the new one.
        change.remove(*(line for line in function.node.body.body if code(line).strip() == (runs or "").strip()))

    change.each(kernel.functions.values(), join, "the file has no function")
    return change.rewritten("joined the three products of each step into one loop of three times the length")


def _loop(chain: Chain, taken: set[str], runs: bool) -> list[cst.BaseStatement]:
    """Write the number of steps, that there are any where the loop certainly `runs`, and the loop."""
    steps, joined, part, step = (fresh(name, taken) for name in ("steps", "joined_step", "part", "step"))
    call = cst.ensure_type(chain.loop.iter, cst.Call)
    count, place = _range([code(arg.value) for arg in call.args if arg.keyword is None], step)
    head = [
        "# The products of low and high parts, of high and low ones, then of both high parts.\n"
        f"{part} = {joined} // {steps}\n",
        f"{step} = {joined} - {part} * {steps}\n",
        f"{code(chain.loop.target)} = {place}\n",
    ]
    moved = {name: fresh(f"{name}_of_step", taken) for name in chain.advances}
    loads = [chain.function.statement_of(item.high) for item in (chain.left, chain.right)]
    moved_away = (chain.left.low, chain.right.low, *chain.advances.values())
    gone = [*(dot.statement for dot in chain.dots[:2]), *map(chain.function.statement_of, moved_away)]
    for name, new in moved.items():
        head.append(f"{new} = {name} + tl.cast({step}, tl.int64) * {operand(code(chain.advances[name].value))}\n")
    lines: list[cst.BaseStatement] = []
    for line in block_of(chain.loop):
        if any(line is item for item in gone):
            continue
        shifted: dict[cst.CSTNode, Edit] = {
            parts.pointer: put(f"{code(parts.pointer)} + ({part} == {number}) * {parts.distance}")
            for number, parts in enumerate((chain.left, chain.right))
            if line is loads[number]
        }
        lines.append(substitute(edited(line, shifted), moved))
    keywords = [arg for arg in call.args if arg.keyword is not None]
    bounds = [cst.Arg(expression("0")), cst.Arg(expression(f"3 * {steps}"))]
    (loop,) = statements(f"for {joined} in range(0):\n    pass\n")
    steps_of = call.with_changes(args=[*bounds, *keywords])
    loop = loop.with_changes(iter=steps_of, body=cst.IndentedBlock([*statements("".join(head)), *lines]))
    first = statements(f"{steps} = {count}\n")[0]
    assumed = statements(f"tl.assume(3 * {steps} > 0)\n") if runs else []
    return [first.with_changes(leading_lines=chain.loop.leading_lines), *assumed, loop]


def _range(bounds: list[str], step: str) -> tuple[str, str]:
    """Return how many steps a range has, and the variable's value in one of them."""
    start, stop, by = {1: ("0", *bounds, "1"), 2: (*bounds, "1"), 3: tuple(bounds)}[len(bounds)]
    length = stop if start == "0" else f"{operand(stop)} - {operand(start)}"
    count = length if by == "1" else f"tl.cdiv({length}, {by})"
    moved = step if by == "1" else f"{step} * {operand(by)}"
    return count, moved if start == "0" else f"{operand(start)} + {moved}"
