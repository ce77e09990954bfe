"""Reads Triton kernels for CUDA: what a rule may ask.

    from ...analysis.triton import TritonKernel, bounds_of

    kernel = TritonKernel.read(source)  # launches, functions

docs/rules.md lists all questions, with the module that answers each.
"""

from .affine import COLUMNS, ROWS, Affine, Stride, size_of, strides_added, strides_of
from .bounds import Bound, bounds_of, only_masks, unless, unmasked_where_whole
from .chained_products import Chain, chain_of, three_in_a_row
from .channels import ChannelLoad, StridedOperand, channel_load, strided_operand
from .convolution_template import ConvolutionTemplate, convolution_of
from .dots import (
    OTHER_FLOATS,
    PRECISIONS,
    Dot,
    OperandLoad,
    SumLoop,
    assigned_names,
    axes_of,
    dots_of,
    operand_load,
    read_first,
    sum_loop,
)
from .elementwise import Elementwise, elementwise_of
from .function import SPLIT_DOT, Function, argument, further_arguments, is_range
from .host import (
    SPLIT_HALVES,
    assumption,
    holds_halves,
    is_argument,
    is_dense,
    is_integer,
    is_of_module,
    make_contiguous,
)
from .kernel import GROUPED, PROGRAM, Launch, TritonKernel, jitted, multiprocessors_of, of_program
from .matrices import MatrixLoad, matrix_load
from .neighbours import Neighbours, neighbours_of
from .norms import SQUARES, SUM, RowStatistics, row_statistics
from .passes import Passes, passes_of, variable
from .tile_stores import TileStore, tile_store
from .tiles import SHARED_KIB, Tile, sides_of, warps_for_two
from .values import ValueNumbers
