"""Merge two adjacent passes over the same elements into one."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from ...analysis.source import names, substitute
from ...analysis.tilelang import Rewriting, TileLangLoop, accesses, cpu_tilelang, loop_of, rebuild, rewrite_kernels
from ...analysis.tree import Statement, edited, find_all, plain_targets
from ..rule import Change, Rewritten, require, rule


@rule("memory", "streams", cpu_tilelang).because("each element is fetched once instead of once per pass")
def fuse_passes(module: cst.Module, change: Change) -> Rewritten:
    """Fuse two consecutive loops with the same extents.

    An element that one loop writes may be touched by the other only at the same index, and that index must use
    every loop variable: then no step depends on another step.
    """
    none = "no two passes over the same elements follow each other"

    def rewrite(statement: Statement) -> Rewriting[int]:
        done: list[int] = []

        def fuse(block: cst.IndentedBlock) -> cst.IndentedBlock:
            fused = _fuse_neighbours(block.body)
            done.append(len(block.body) - len(fused))
            return block.with_changes(body=fused) if done[-1] else block

        new = edited(statement, dict.fromkeys(find_all(statement, cst.IndentedBlock), fuse))
        require(sum(done), none)
        return sum(done), [new]

    return change.rewritten(f"fused {sum(rewrite_kernels(change, rewrite, none))} pass(es) into the pass before")


def _fuse_neighbours(body: Sequence[Statement]) -> list[Statement]:
    """Return the block with loops merged; simple statements between two loops move up where they commute."""
    result: list[Statement] = []
    for statement in body:
        compound = [i for i, statement in enumerate(result) if isinstance(statement, cst.BaseCompoundStatement)]
        at = compound[-1] if compound else 0
        loop, first, between = loop_of(statement), loop_of(result[at]) if compound else None, result[at + 1 :]
        fits = loop and first and all(_commute(first.node, other) for other in between)
        fused = _fused(first, loop) if fits and first and loop else None
        result[at if fused else len(result) :] = [*between, fused] if fused else [statement]
    return result


def _commute(first: cst.CSTNode, second: cst.CSTNode) -> bool:
    earlier, later = accesses(first), accesses(second)
    buffers = ({a.buffer for a in earlier}, {a.buffer for a in later})
    written = ({a.buffer for a in earlier if a.write}, {a.buffer for a in later if a.write})
    shared = (plain_targets(first) | plain_targets(second)) & names(first) & names(second)
    return not (written[0] & buffers[1] or written[1] & buffers[0] or shared)


def _fused(first: TileLangLoop, second: TileLangLoop) -> Statement | None:
    if (first.kind, first.extents) != (second.kind, second.extents):
        return None
    inner = [loop for s in (*first.body, *second.body) for loop in find_all(s, cst.For)]
    if names(*(loop.target for loop in inner)) & {*first.variables, *second.variables}:
        return None
    after = [substitute(s, dict(zip(second.variables, first.variables, strict=True))) for s in second.body]
    if not _independent(first.body, after, first.variables):
        return None
    return rebuild(first, [*first.body, *after])


def _independent(before: Sequence[Statement], after: Sequence[Statement], variables: Sequence[str]) -> bool:
    earlier = [access for s in before for access in accesses(s)]
    later = [access for s in after for access in accesses(s)]
    written = {a.buffer for a in earlier if a.write} | {a.buffer for a in later if a.write}
    for buffer in written & {a.buffer for a in earlier} & {a.buffer for a in later}:
        indices = {a.index for a in [*earlier, *later] if a.buffer == buffer}
        used = names(*(cst.parse_expression(part) for index in indices for part in index if part != "*"))
        if len(indices) != 1 or not set(variables) <= used:
            return False
    # A plain variable that one body assigns must not be the later's.
    return not plain_targets(*before) & names(*after)
