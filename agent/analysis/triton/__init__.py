"""Reads Triton kernels for CUDA: what a rule may ask.

    from ...analysis.triton import TritonKernel, bounds_of

    kernel = TritonKernel.read(source)  # launches, functions

docs/rules.md lists all questions, with the module that answers each.
"""

from .affine import Affine
from .blocks import axes_of, has_products, searched_axes
from .bounds import Bound, bounds_of, only_masks
from .chained_products import Chain, chain_of
from .channels import ChannelLoad, channel_load
from .convolution_template import Convolution, convolution_of
from .dots import OTHER_FLOATS, PRECISIONS, SPLIT_DOT, Dot, dots_of, operand_load
from .elementwise import Elementwise, elementwise_of
from .first_step import assumption
from .function import RANGE, Function, argument, further_arguments
from .integers import is_integer
from .kernel import Launch, TritonKernel
from .launching import choice, regridded, relaunched, texts, uses_only_here
from .leftovers import without_unused
from .linear import COLUMNS, ROWS, Stride, size_of, strides_added, strides_of
from .matrices import MatrixLoad, matrix_load
from .neighbours import Neighbours, neighbours_of
from .passes import Passes, body_of, passes_of, variable
from .programs import GROUPED, PROGRAM, knows_program_zero_alone, multiprocessors_of, of_program, tensor_of
from .row_statistics import RowStatistics, row_statistics
from .row_values import SQUARES, SUM
from .sum_loop import SumLoop, assigned_names, read_first, sum_loop
from .tensors import SPLIT_HALVES, assigned, is_argument, is_dense, is_of_module
from .tile_stores import TileStore, tile_store
from .tiles import SHARED_KIB, Tile, sides_of, warps_for_two
from .values import Values, assigned_in
from .whole_rows import unmasked_where_whole

# fmt: off
__all__ = [
    "COLUMNS",
    "GROUPED",
    "OTHER_FLOATS",
    "PRECISIONS",
    "PROGRAM",
    "RANGE",
    "ROWS",
    "SHARED_KIB",
    "SPLIT_DOT",
    "SPLIT_HALVES",
    "SQUARES",
    "SUM",
    "Affine",
    "Bound",
    "Chain",
    "ChannelLoad",
    "Convolution",
    "Dot",
    "Elementwise",
    "Function",
    "Launch",
    "MatrixLoad",
    "Neighbours",
    "Passes",
    "RowStatistics",
    "Stride",
    "SumLoop",
    "Tile",
    "TileStore",
    "TritonKernel",
    "Values",
    "argument",
    "assigned",
    "assigned_in",
    "assigned_names",
    "assumption",
    "axes_of",
    "body_of",
    "bounds_of",
    "chain_of",
    "channel_load",
    "choice",
    "convolution_of",
    "dots_of",
    "elementwise_of",
    "further_arguments",
    "has_products",
    "is_argument",
    "is_dense",
    "is_integer",
    "is_of_module",
    "knows_program_zero_alone",
    "matrix_load",
    "multiprocessors_of",
    "neighbours_of",
    "of_program",
    "only_masks",
    "operand_load",
    "passes_of",
    "read_first",
    "regridded",
    "relaunched",
    "row_statistics",
    "searched_axes",
    "sides_of",
    "size_of",
    "strides_added",
    "strides_of",
    "sum_loop",
    "tensor_of",
    "texts",
    "tile_store",
    "unmasked_where_whole",
    "uses_only_here",
    "variable",
    "warps_for_two",
    "without_unused",
]
# fmt: on
