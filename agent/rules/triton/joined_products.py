"""One product over three times the length in the place of three chained ones of split operands."""

from __future__ import annotations

import libcst as cst

from ...analysis.applicability import need
from ...analysis.change import Change, Rewritten
from ...analysis.source import code, expression, fresh, names, operand, statements, substitute
from ...analysis.triton import Chain, Function, TritonKernel, assumption, chain_of
from ..rule import rule


@rule(
    "joined-products",
    category="compute",
    work="products",
    why="chained products of one step wait for each other; one product per step keeps the tensor cores' pipe full",
    reads=TritonKernel.read,
)
def joined_products(kernel: TritonKernel, change: Change) -> Rewritten:
    """Sum low * high, then high * low, then high * high, in one loop of three times as many steps with one product.

    Needs three products in a loop over one range that sum into the same accumulator, whose operands are two loads
    each, the same address and one at a distance. The loop may carry the accumulator, and pointers that each step moves
    by the same amount. The terms are the same as before in another order: all those of low parts come first, where
    they are still large beside the sum.
    """
    launches = {launch.function: launch for launch in kernel.launched_once()}

    def join(function: Function, change: Change) -> None:
        chain = need(chain_of(function), "no three products of two operands in two parts each")
        runs = assumption(launches[function], chain.loop) if function in launches else None
        new = _loop(chain, {*function.parameters, *names(function.node)}, runs is not None)
        change.edit(chain.loop, lambda _: cst.FlattenSentinel(new))
        # What is said of the loop as it was is now said of the new one.
        for line in function.node.body.body:
            if runs and code(line).strip() == runs.strip():
                change.remove(line)

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
    gone, loads = _gone(chain), [chain.function.statement_of(item.high) for item in (chain.left, chain.right)]
    for name, new in moved.items():
        head.append(f"{new} = {name} + tl.cast({step}, tl.int64) * {operand(code(chain.advances[name].value))}\n")
    lines: list[cst.BaseStatement] = []
    for line in chain.loop.body.body:
        if any(line is item for item in gone):
            continue
        kept: cst.BaseStatement | cst.BaseSmallStatement = line
        for number, parts in enumerate((chain.left, chain.right)):
            if line is loads[number]:
                shifted = f"{code(parts.pointer)} + ({part} == {number}) * {parts.distance}"
                kept = cst.ensure_type(line.deep_replace(parts.pointer, expression(shifted)), cst.SimpleStatementLine)
        assert isinstance(kept, cst.BaseStatement)
        lines.append(substitute(kept, moved))
    keywords = [arg for arg in call.args if arg.keyword is not None]
    bounds = [cst.Arg(expression("0")), cst.Arg(expression(f"3 * {steps}"))]
    loop = cst.ensure_type(statements(f"for {joined} in range(0):\n    pass\n")[0], cst.For)
    loop = loop.with_changes(
        iter=call.with_changes(args=[*bounds, *keywords]),
        body=cst.IndentedBlock([*statements("pass\n" + "".join(head))[1:], *lines]),
    )
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


def _gone(chain: Chain) -> list[cst.CSTNode | None]:
    """Return the statements that a loop with one product does not have."""
    low, mixed, _ = chain.dots
    statement = chain.function.statement_of
    gone = [low.statement, mixed.statement, statement(chain.left.low), statement(chain.right.low)]
    return [*gone, *(statement(update) for update in chain.advances.values())]
