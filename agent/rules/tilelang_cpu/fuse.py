"""Merge two adjacent passes over the same elements into one."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst
import libcst.matchers as m

from ...analysis.applicability import require
from ...analysis.change import Change, Rewritten
from ...analysis.search import find_all
from ...analysis.source import Statement, code, names, substitute
from ...analysis.tilelang import Loop, accesses, cpu_tilelang, loop_of, rebuild, rewrite_kernels
from ..rule import rule


@rule(
    "fuse-passes",
    category="memory",
    work="streams",
    why="each element is fetched once instead of once per pass",
    reads=cpu_tilelang,
)
def fuse_passes(module: cst.Module, change: Change) -> Rewritten:
    """Fuse two consecutive loops with the same extents.

    An element that one loop writes may be touched by the other only at the same index, and that index must use
    every loop variable: then no step depends on another step.
    """
    done: list[int] = []

    class Fuser(cst.CSTTransformer):
        def leave_IndentedBlock(
            self, original_node: cst.IndentedBlock, updated_node: cst.IndentedBlock
        ) -> cst.IndentedBlock:
            body = [s for s in updated_node.body if isinstance(s, cst.BaseStatement)]
            fused = _fuse_neighbours(body)
            if len(fused) < len(body):
                done.append(len(body) - len(fused))
                return updated_node.with_changes(body=fused)
            return updated_node

    def rewrite(statement: Statement, after: Sequence[Statement]) -> Sequence[Statement] | None:
        new = statement.visit(Fuser())
        assert isinstance(new, cst.BaseStatement)
        return [new]

    change.module = rewrite_kernels(module, rewrite)
    require(done, "no two passes over the same elements follow each other")
    return change.rewritten(f"fused {sum(done)} pass(es) into the pass before")


def _fuse_neighbours(body: list[Statement]) -> list[Statement]:
    """Return the block with loops merged; simple statements between two loops move up where they commute."""
    result: list[Statement] = []
    for statement in body:
        loop = loop_of(statement)
        earlier = next(
            (i for i in range(len(result) - 1, -1, -1) if isinstance(result[i], cst.BaseCompoundStatement)),
            None,
        )
        first = loop_of(result[earlier]) if earlier is not None else None
        between = result[earlier + 1 :] if earlier is not None else []
        fused = None
        if loop and first and all(_commute(first.node, other) for other in between):
            fused = _fused(first, loop)
        if fused is None or earlier is None:
            result.append(statement)
        else:
            result[earlier:] = [*between, fused]
    return result


def _commute(one: cst.CSTNode, other: cst.CSTNode) -> bool:
    """Return whether two statements may be swapped: neither writes what the other touches."""
    first, second = accesses(one), accesses(other)
    buffers = ({a.buffer for a in first}, {a.buffer for a in second})
    written = ({a.buffer for a in first if a.write}, {a.buffer for a in second if a.write})
    plain = {n.value for n in _plain_targets(one)} | {n.value for n in _plain_targets(other)}
    shared = plain & names(one) & names(other)
    return not (written[0] & buffers[1] or written[1] & buffers[0] or shared)


def _fused(first: Loop, second: Loop) -> Statement | None:
    if (first.kind, first.extents) != (second.kind, second.extents):
        return None
    bound = {name for s in (*first.body, *second.body) for name in _loop_variables(s)}
    if bound & {*first.variables, *second.variables}:
        return None
    renamed = [substitute(s, dict(zip(second.variables, first.variables, strict=True))) for s in second.body]
    after = [s for s in renamed if isinstance(s, cst.BaseStatement)]
    if not _independent(first.body, after, first.variables):
        return None
    return rebuild(first, [*first.body, *after])


def _independent(before: Sequence[Statement], after: Sequence[Statement], variables: Sequence[str]) -> bool:
    one = [access for s in before for access in accesses(s)]
    other = [access for s in after for access in accesses(s)]
    written = {a.buffer for a in one if a.write} | {a.buffer for a in other if a.write}
    for buffer in written & {a.buffer for a in one} & {a.buffer for a in other}:
        indices = {a.index for a in [*one, *other] if a.buffer == buffer}
        used = {name for index in indices for part in index for name in _names_of(part)}
        if len(indices) != 1 or not set(variables) <= used:
            return False
    # A plain variable that one body assigns must not be the other's.
    plain = {code(t) for s in before for t in _plain_targets(s)} & {n for s in after for n in names(s)}
    return not plain


def _loop_variables(statement: Statement) -> set[str]:
    """The variables of all loops in a statement."""
    return {name for node in find_all(statement, m.For()) for name in names(cst.ensure_type(node, cst.For).target)}


def _names_of(text: str) -> set[str]:
    return {"*"} if text == "*" else names(cst.parse_expression(text))


def _plain_targets(statement: cst.CSTNode) -> list[cst.Name]:
    found = find_all(statement, m.AssignTarget(target=m.Name()))
    return [n.target for n in found if isinstance(n, cst.AssignTarget) and isinstance(n.target, cst.Name)]
