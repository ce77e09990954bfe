"""Make the statistics of a norm where the kernel before it has the values."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Mapping

import libcst as cst
import libcst.matchers as m

from ....core import PythonKernel
from ...analysis.applicability import NotApplicable, require
from ...analysis.change import Change, Rewritten
from ...analysis.edit import Edit, parsed, with_arguments
from ...analysis.search import find_all
from ...analysis.source import code, fresh, names, operand, statements
from ...analysis.triton import (
    SUM,
    Launch,
    RowStatistics,
    TileStore,
    TritonKernel,
    assigned_in,
    is_dense,
    row_statistics,
    texts,
    tile_store,
)
from ..rule import rule

LARGEST = 256
"""Parts of a row that are read at a time."""
_STORE, _READ = "store_statistics", "read_statistics"
_NEW = m.Call(
    func=m.Attribute(m.Name("torch") | m.Name("triton"), m.Name(m.MatchRegex("empty.*|cdiv|next_power_of_2")))
)
_HELPERS = """
@triton.jit
def store_statistics(parts_ptr, values, inside, offsets, line, n_parts, WIDTH: tl.constexpr, AXIS: tl.constexpr):
    # Of each line's part in a tile: how many values it has, their mean, and the squares of their deviations from it.
    count = tl.sum(inside.to(tl.float32), axis=AXIS)
    mean = tl.sum(tl.where(inside, values, 0.0), axis=AXIS) / tl.maximum(count, 1.0)
    deviation = tl.where(inside, values - tl.expand_dims(mean, AXIS), 0.0)
    squares = tl.sum(deviation * deviation, axis=AXIS)
    first = tl.min(offsets, axis=AXIS)
    part = first // line * tl.cdiv(line, WIDTH) + first % line // WIDTH
    tl.store(parts_ptr + part, count, mask=count > 0)
    tl.store(parts_ptr + n_parts + part, mean, mask=count > 0)
    tl.store(parts_ptr + 2 * n_parts + part, squares, mask=count > 0)


@triton.jit
def read_statistics(parts_ptr, rows, row_parts, n_parts, BLOCK: tl.constexpr):
    # The sum and the squared deviations of rows, from those of their parts: their means are what deviates.
    first = rows.to(tl.int64)[:, None] * row_parts
    lanes = tl.arange(0, BLOCK)[None, :]
    counts = tl.zeros((rows.shape[0], BLOCK), dtype=tl.float32)
    sums = tl.zeros((rows.shape[0], BLOCK), dtype=tl.float32)
    for start in range(0, row_parts, BLOCK):
        part = first + start + lanes
        mask = (start + lanes < row_parts) & (part < n_parts)
        count = tl.load(parts_ptr + part, mask=mask, other=0.0)
        counts += count
        sums += count * tl.load(parts_ptr + n_parts + part, mask=mask, other=0.0)
    total = tl.sum(sums, axis=1)
    mean = total / tl.maximum(tl.sum(counts, axis=1), 1.0)
    squares = tl.zeros((rows.shape[0], BLOCK), dtype=tl.float32)
    for start in range(0, row_parts, BLOCK):
        part = first + start + lanes
        mask = (start + lanes < row_parts) & (part < n_parts)
        count = tl.load(parts_ptr + part, mask=mask, other=0.0)
        deviation = tl.load(parts_ptr + n_parts + part, mask=mask, other=0.0) - mean[:, None]
        squares += tl.load(parts_ptr + 2 * n_parts + part, mask=mask, other=0.0) + count * deviation * deviation
    return total, tl.sum(squares, axis=1)
"""


@rule(
    "epilogue-statistics",
    category="memory",
    work="both",
    why="the norm need not read the values for their mean, and once more for their variance",
    reads=TritonKernel.read,
)
def epilogue_statistics(kernel: TritonKernel, change: Change) -> Rewritten:
    """The kernel that stores a buffer leaves count, mean and squared deviations of each tile's lines; the norm adds up.

    Needs two launches in one block, with nothing but other tensors between; a new buffer that the first fills by one
    store of a tile, whose lines are runs of one length, masked at their end; and a second that sums rows of it, and the
    squares of their deviations from the mean, in passes over one row or in a block of whole rows. The host looks
    whether rows are whole lines, or tiles and rows divide lines and rows; without it both kernels work as before.
    (Chan, Golub, LeVeque: Updating formulae and a pairwise algorithm for computing sample variances, 1979.)
    """
    require("torch" in change.taken, "the file does not import torch")
    change.require_free(_STORE, _READ)
    changed: list[str] = []

    def hand_over(pair: tuple[Launch, Launch], change: Change) -> None:
        producer, consumer = pair
        _hand_over(producer, consumer, *_handed_over(producer, consumer, change.kernel), change)
        changed.append(f"{consumer.function.name} in {producer.function.name}")

    once = [launch for launch in kernel.launched_once() if launch.stands_alone]
    change.first(itertools.permutations(once, 2), hand_over, "no two functions are launched one after the other")
    change.helper(_HELPERS)
    return change.rewritten(f"made the statistics of {changed[0]}")


def _handed_over(producer: Launch, consumer: Launch, kernel: PythonKernel) -> tuple[str, TileStore, RowStatistics]:
    """Return the buffer between two launches, and how it is stored and summed. Raises NotApplicable."""
    for written, buffer in texts(producer).items():
        read = [name for name, text in texts(consumer).items() if text == buffer]
        if len(read) != 1 or not buffer.isidentifier() or not _is_handed_over(producer, consumer, buffer):
            continue
        made = row_statistics(consumer, read[0])
        store = tile_store(producer, written) if made is not None else None
        if store is not None and made is not None and _may_fit(kernel, producer, store, made):
            return buffer, store, made
    raise NotApplicable("no norm sums the rows of a buffer that the launch before it stores in tiles")


def _is_handed_over(producer: Launch, consumer: Launch, buffer: str) -> bool:
    """Return whether a new buffer goes from one launch to the other, which may run as late as the other does."""
    if producer.host is not consumer.host or not is_dense(producer.host, cst.Name(buffer)):
        return False
    for block in find_all(producer.host, m.IndentedBlock()):
        body = list(cst.ensure_type(block, cst.IndentedBlock).body)
        places = [[i for i, one in enumerate(body) if one is launch.statement] for launch in (producer, consumer)]
        if all(places) and places[0] < places[1]:
            between = body[places[0][0] + 1 : places[1][0]]
            needed = names(producer.node)
            return all(_is_harmless(item, buffer) and not assigned_in(item) & needed for item in between)
    return False


def _is_harmless(statement: cst.CSTNode, buffer: str) -> bool:
    """Return whether a statement only names a value, or another tensor like the buffer."""
    calls = find_all(statement, m.Call())
    like = m.Call(func=m.Attribute(m.Name("torch"), m.Name("empty_like")))
    plain = m.matches(statement, m.SimpleStatementLine([m.Assign(targets=[m.AssignTarget(m.Name())])]))
    known = all(m.matches(call, _NEW) for call in calls)
    return plain and known and (buffer not in names(statement) or any(m.matches(call, like) for call in calls))


def _may_fit(kernel: PythonKernel, producer: Launch, store: TileStore, made: RowStatistics) -> bool:
    """Return whether rows may be made of tiles: where the lengths are numbers, for one of the declared widths."""
    if made.length.sizes or store.length.sizes:
        return True
    row, line, constant = made.length.number, store.length.number, producer.constant(store.width) or ""
    widths = [
        item for item in kernel.declared_values.get(constant, [kernel.config.get(constant)]) if isinstance(item, int)
    ]
    return row % line == 0 or any(row % item == 0 == line % item for item in widths)


def _hand_over(
    producer: Launch, consumer: Launch, buffer: str, store: TileStore, made: RowStatistics, change: Change
) -> None:
    flag, parts, count, each = (change.fresh(item) for item in ("FROM_PARTS", "parts", "n_parts", "row_parts"))
    pointer, block = change.fresh("parts_ptr"), change.fresh("PARTS_BLOCK")
    line, row = operand(store.length.on_host(texts(producer))), operand(made.host_length)
    width = operand(texts(producer)[store.width])
    host = f"""\
# Rows of the norm are whole lines of the tiles, or tiles are whole parts of rows and lines.
{flag.lower()} = {row} % {line} == 0 or ({line} % {width} == 0 and {row} % {width} == 0)
{count} = {buffer}.numel() // {line} * triton.cdiv({line}, {width})
{each} = max(1, {count} * {row} // {buffer}.numel())
{parts} = torch.empty(3 * {count} if {flag.lower()} else 1, device={buffer}.device, dtype=torch.float32)
"""
    given = {pointer: parts, count: count, flag: flag.lower()}
    size = f"min({LARGEST}, triton.next_power_of_2({each}))"
    change.add_parameters(producer.function.node, [pointer, count], [flag])
    change.add_parameters(consumer.function.node, [pointer, each, count], [flag, block])
    change.add_arguments(consumer.node, {**given, each: each, block: size})
    # After what stands between the launches: the norm's sizes may be known only there.
    change.remove(producer.statement)
    change.edit(consumer.statement, _after(host, producer, given))
    change.before(store.statement, _stored(store, pointer, count, flag))
    own = {*consumer.function.parameters, *assigned_in(consumer.function.node)}
    rows, total, squares = (fresh(item, own) for item in ("rows", "row_sum", "row_squares"))
    offsets = made.offsets if made.axis is None else f"tl.min({made.offsets}, axis={made.axis})"
    shape = f"tl.zeros((1,), dtype=tl.int64) + ({offsets})" if made.axis is None else offsets
    text = f"""\
if {flag}:
    {rows} = ({shape}) // {operand(made.length.text)}
    {total}, {squares} = {_READ}({pointer}, {rows}, {each}, {count}, {block})
"""
    if made.axis is None:
        text += f"    {total}, {squares} = tl.sum({total}, axis=0), tl.sum({squares}, axis=0)\n"
    for call, kind in made.calls.items():
        change.put(call, f"({total if kind == SUM else squares} if {flag} else {code(call)})")
    for loop in made.loops:
        change.edit(loop, _unless(flag, text if loop is made.first else ""))
    if not any(loop is made.first for loop in made.loops):
        change.before(made.first, text)


def _after(host: str, producer: Launch, given: Mapping[str, str]) -> Edit:
    """Return an edit that puts the launch with more arguments before a statement, and text before both."""
    call = with_arguments(given)(producer.node)
    assert isinstance(call, cst.Call)
    launch = cst.SimpleStatementLine([cst.Expr(call)])
    return lambda node: cst.FlattenSentinel([*parsed(host), launch, cst.ensure_type(node, cst.SimpleStatementLine)])


def _unless(flag: str, ahead: str) -> Edit:
    """Return an edit that runs a loop only where a flag is not set."""

    def make(node: cst.CSTNode) -> cst.FlattenSentinel[cst.BaseStatement]:
        loop = cst.ensure_type(node, cst.For)
        choice = cst.ensure_type(statements(f"if not {flag}:\n    pass\n")[0], cst.If)
        choice = choice.with_changes(body=cst.IndentedBlock([loop]))
        return cst.FlattenSentinel([*statements(ahead), choice])

    return make


def _stored(store: TileStore, pointer: str, count: str, flag: str) -> str:
    """Write the part of the epilogue that leaves the statistics of the values as the buffer has them."""
    call = f"""\
{_STORE}(
    {pointer},
    tl.broadcast_to({store.value}, {store.shape}).to({store.parameter}.dtype.element_ty).to(tl.float32),
    tl.broadcast_to({store.mask}, {store.shape}),
    tl.broadcast_to({store.offset}, {store.shape}),
    {store.length.text},
    {count},
    {store.width},
    {store.axis},
)
"""
    return f"if {flag}:\n" + textwrap.indent(call, "    ")
