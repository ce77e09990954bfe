"""Reads Triton kernels for CUDA: what a rule may ask.

    from ...analysis.triton import TritonKernel, bounds_of

    kernel = TritonKernel.read(source)  # launches, functions

docs/rules.md lists all questions, with the module that answers each.
"""

from .affine import COLUMNS, ROWS, Affine, Stride, size_of, strides_added, strides_of
from .blocks import axes_of, has_products, searched_axes
from .bounds import Bound, bounds_of, only_masks
from .chained_products import Chain, chain_of
from .channels import ChannelLoad, channel_load
from .convolution_template import Convolution, convolution_of
from .dots import OTHER_FLOATS, PRECISIONS, SPLIT_DOT, Dot, dots_of, operand_load
from .elementwise import Elementwise, elementwise_of
from .first_step import assumption
from .function import RANGE, Function, argument, calls_in, further_arguments
from .integers import is_integer
from .kernel import Launch, TritonKernel
from .launching import choice, regridded, relaunched, texts, uses_only_here
from .matrices import MatrixLoad, matrix_load
from .neighbours import Neighbours, neighbours_of
from .norms import RowStatistics, row_statistics
from .passes import Passes, body_of, passes_of, variable
from .programs import GROUPED, PROGRAM, knows_program_zero_alone, multiprocessors_of, of_program, tensor_of
from .row_values import SQUARES, SUM
from .sums import SumLoop, assigned_names, read_first, sum_loop
from .tensors import SPLIT_HALVES, assigned, is_argument, is_dense, is_of_module
from .tile_stores import TileStore, tile_store
from .tiles import SHARED_KIB, Tile, sides_of, warps_for_two
from .values import Values, assigned_in
from .whole_rows import unmasked_where_whole
