"""Rewrite rules on a kernel's syntax tree, each with the preconditions under which it preserves the result."""

from ...entry_points import EntryGroup
from ..analysis.applicability import NotApplicableError
from ..analysis.change import Machine, Rewritten
from .launch_parameters import launch_parameters
from .rule import After, Completed, Rule
from .tilelang_cpu.fuse import fuse_passes
from .tilelang_cpu.licm import licm
from .tilelang_cpu.loop_order import loop_order
from .tilelang_cpu.partial_accumulators import partial_accumulators
from .tilelang_cpu.register_tile import register_tile
from .tilelang_cpu.relaxed_math import relaxed_math
from .tilelang_cpu.split_grid import split_grid
from .tilelang_cpu.unroll_and_jam import unroll_and_jam
from .tilelang_cuda.keep_row import keep_row
from .tilelang_cuda.product_schedule import product_schedule
from .tilelang_cuda.split_products import split_products, split_products_tf32
from .tilelang_cuda.swizzle import swizzle_blocks
from .triton.channels_last import channels_last
from .triton.constant_sizes import constant_sizes
from .triton.dropped_tiles import dropped_tiles
from .triton.epilogue_statistics import epilogue_statistics
from .triton.even_sizes import even_sizes
from .triton.eviction_hints import eviction_hints
from .triton.fuse_neighbour import fuse_neighbour
from .triton.grouped_order import grouped_order
from .triton.joined_products import joined_products
from .triton.joined_taps import joined_taps
from .triton.pack_weights import pack_weights
from .triton.persistent_grid import persistent_grid
from .triton.persistent_rows import persistent_rows
from .triton.pipelined_loads import pipelined_loads
from .triton.promoted_products import promoted_products
from .triton.row_in_registers import row_in_registers
from .triton.rows_per_program import rows_per_program
from .triton.split_k import split_k
from .triton.split_operands import split_operands
from .triton.split_precision import START, precision_choice, split_precision
from .triton.split_rows import split_rows
from .triton.tensor_descriptors import tensor_descriptors
from .triton.wide_streams import wide_streams
from .triton.wide_tiles import wide_tiles

RULES: tuple[Rule, ...] = (
    split_grid,
    loop_order,
    fuse_passes,
    licm,
    partial_accumulators,
    register_tile,
    unroll_and_jam,
    relaxed_math,
    launch_parameters,
    swizzle_blocks,
    fuse_neighbour,
    epilogue_statistics,
    row_in_registers,
    split_rows,
    rows_per_program,
    pipelined_loads,
    persistent_rows,
    eviction_hints,
    constant_sizes,
    wide_streams,
    Completed(joined_taps, (precision_choice(START),)),
    pack_weights,
    Completed(channels_last, (pack_weights, precision_choice(START))),
    After(dropped_tiles, fuse_neighbour),
    split_precision,
    split_operands,
    After(promoted_products, split_operands),
    After(joined_products, split_operands),
    wide_tiles,
    grouped_order,
    even_sizes,
    tensor_descriptors,
    split_k,
    persistent_grid,
    split_products,
    split_products_tf32,
    keep_row,
    product_schedule,
)
"""Rules of the same category are tried in this order."""
ENTRIES = EntryGroup("kernelwright.rules", "rule", Rule, "kernelwright.Rule")  # type: ignore[type-abstract]
"""Where packages of others name their rules: `bypass-l1 = "package.module:bypass_l1"`."""


def known_rules() -> tuple[Rule, ...]:
    """Return the rules of this package, then those of others. Raises `OptionError` for one that cannot be loaded."""
    found = {rule.name: rule for rule in RULES}
    for point in ENTRIES.points:
        rule = ENTRIES.load(point)
        if found.setdefault(rule.name, rule) is not rule:
            raise ENTRIES.broken(point, f"has the name of another rule, {rule.name}")
    return tuple(found.values())


NotApplicable = NotApplicableError
"""The documented name of earlier versions, for rules of other packages."""

__all__ = ["RULES", "Machine", "NotApplicable", "NotApplicableError", "Rewritten", "Rule", "known_rules"]
