"""Compute the statistics of a norm in the kernel before it, which has the values."""

from __future__ import annotations

import itertools
import textwrap
from contextlib import suppress

import libcst as cst

from ....core import PythonKernel
from ...analysis.change import with_arguments
from ...analysis.source import code, fresh, names, operand, statements
from ...analysis.template import matches
from ...analysis.tree import Edit, assigned_in, assigned_name, calls_in, find_all
from ...analysis.triton import SUM, Launch, RowStatistics, TileStore, TritonKernel, is_dense, row_statistics, tile_store
from ..rule import Change, NotApplicableError, Rewritten, require, rule

LARGEST = 256
"""Parts of a row that are read at a time."""
_STORE, _READ = "store_statistics", "read_statistics"
_NEW = ("torch.empty*", "triton.cdiv", "triton.next_power_of_2")
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


@rule("memory", "both", TritonKernel.read).because(
    "the norm need not read the values for their mean, and once more for their variance"
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
    pairs = itertools.permutations((launch for launch in kernel.launched_once() if launch.stands_alone), 2)
    did = change.first(pairs, _hand_over, "no two functions are launched one after the other")
    change.helper(_HELPERS)
    return change.rewritten(did)


def _handed_over(producer: Launch, consumer: Launch, kernel: PythonKernel) -> tuple[str, TileStore, RowStatistics]:
    for written, buffer in producer.texts.items():
        read = [name for name, text in consumer.texts.items() if text == buffer]
        if len(read) != 1 or not buffer.isidentifier() or not _is_handed_over(producer, consumer, buffer):
            continue
        with suppress(NotApplicableError):
            made, store = row_statistics(consumer.function, read[0]), tile_store(producer.function, written)
            if _may_fit(kernel, producer, store, made):
                return buffer, store, made
    raise NotApplicableError("no norm sums the rows of a buffer that the launch before it stores in tiles")


def _is_handed_over(producer: Launch, consumer: Launch, buffer: str) -> bool:
    """Return whether a new buffer goes from one launch to the other, which may run as late as the other does."""
    if producer.host is not consumer.host or not is_dense(producer.host, cst.Name(buffer)):
        return False
    for block in find_all(producer.host, cst.IndentedBlock):
        body = list(block.body)
        places = [
            [i for i, statement in enumerate(body) if statement is launch.statement] for launch in (producer, consumer)
        ]
        if all(places) and places[0] < places[1]:
            between = body[places[0][0] + 1 : places[1][0]]
            needed = names(producer.node)
            return all(_is_harmless(item, buffer) and not assigned_in(item) & needed for item in between)
    return False


def _is_harmless(statement: cst.CSTNode, buffer: str) -> bool:
    """Return whether a statement only names a value, or another tensor like the buffer."""
    known = len(calls_in(statement, *_NEW)) == len(find_all(statement, cst.Call))
    named = buffer in names(statement) and not calls_in(statement, "torch.empty_like")
    return matches(statement, "q_name = q_value") and assigned_name(statement) is not None and known and not named


def _may_fit(kernel: PythonKernel, producer: Launch, store: TileStore, made: RowStatistics) -> bool:
    """Return whether rows may be made of tiles: where the lengths are numbers, for one of the declared widths."""
    if made.length.sizes or store.length.sizes:
        return True
    row, line, constant = made.length.number, store.length.number, producer.constant(store.width) or ""
    widths = kernel.declared_values.get(constant, [kernel.config.get(constant)])
    return row % line == 0 or any(isinstance(width, int) and row % width == 0 == line % width for width in widths)


def _hand_over(pair: tuple[Launch, Launch], change: Change) -> str:
    """Let the first launch make what the second sums up; return what was done."""
    producer, consumer = pair
    buffer, store, made = _handed_over(producer, consumer, change.kernel)
    flag, parts, count, each = (change.fresh(item) for item in ("FROM_PARTS", "parts", "n_parts", "row_parts"))
    pointer, block = change.fresh("parts_ptr"), change.fresh("PARTS_BLOCK")
    line, row = operand(store.length.on_host(producer.texts)), operand(made.length.on_host(consumer.texts))
    width = operand(producer.texts[store.width])
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
    launched = cst.SimpleStatementLine([cst.Expr(with_arguments(given)(producer.node))])
    # After what stands between the launches: the norm's sizes may be known only there.
    change.remove(producer.statement)
    change.edit(consumer.statement, lambda node: cst.FlattenSentinel([*statements(host), launched, node]))
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
    return f"made the statistics of {consumer.function.name} in {producer.function.name}"


def _unless(flag: str, ahead: str) -> Edit:
    """Return an edit that runs a loop only where a flag is not set."""
    *first, choice = statements(f"{ahead}if not {flag}:\n    pass\n")
    return lambda loop: cst.FlattenSentinel([*first, choice.with_changes(body=cst.IndentedBlock([loop]))])


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
