"""Rewrite rules on a kernel's syntax tree, each with the preconditions under which it preserves the result."""

from .launch_parameters import LaunchParameters
from .rule import Machine, Rewritten, Rule
from .tilelang_cpu.fuse import Fuse
from .tilelang_cpu.licm import Licm
from .tilelang_cpu.loop_order import LoopOrder
from .tilelang_cpu.partial_accumulators import PartialAccumulators
from .tilelang_cpu.register_tile import RegisterTile
from .tilelang_cpu.relaxed_math import RelaxedMath
from .tilelang_cpu.split_grid import SplitGrid
from .tilelang_cpu.unroll_and_jam import UnrollAndJam
from .tilelang_cuda.keep_row import KeepRow
from .tilelang_cuda.product_schedule import ProductSchedule
from .tilelang_cuda.split_products import SplitProducts, SplitProductsTf32
from .tilelang_cuda.swizzle import Swizzle
from .triton.channels_last import ChannelsLast
from .triton.constant_sizes import ConstantSizes
from .triton.dropped_tiles import DroppedTiles
from .triton.epilogue_statistics import EpilogueStatistics
from .triton.even_sizes import EvenSizes
from .triton.eviction_hints import EvictionHints
from .triton.fuse_neighbour import FuseNeighbour
from .triton.grouped_order import GroupedOrder
from .triton.joined_products import JoinedProducts
from .triton.joined_taps import JoinedTaps
from .triton.pack_weights import PackWeights
from .triton.persistent_grid import PersistentGrid
from .triton.persistent_rows import PersistentRows
from .triton.pipelined_loads import PipelinedLoads
from .triton.promoted_products import PromotedProducts
from .triton.row_in_registers import RowInRegisters
from .triton.rows_per_program import RowsPerProgram
from .triton.split_k import SplitK
from .triton.split_operands import SplitOperands
from .triton.split_precision import SplitPrecision
from .triton.split_rows import SplitRows
from .triton.tensor_descriptors import TensorDescriptors
from .triton.wide_streams import WideStreams
from .triton.wide_tiles import WideTiles

RULES: tuple[Rule, ...] = (
    SplitGrid(),
    LoopOrder(),
    Fuse(),
    Licm(),
    PartialAccumulators(),
    RegisterTile(),
    UnrollAndJam(),
    RelaxedMath(),
    LaunchParameters(),
    Swizzle(),
    FuseNeighbour(),
    EpilogueStatistics(),
    RowInRegisters(),
    SplitRows(),
    RowsPerProgram(),
    PipelinedLoads(),
    PersistentRows(),
    EvictionHints(),
    ConstantSizes(),
    WideStreams(),
    JoinedTaps(),
    PackWeights(),
    ChannelsLast(),
    DroppedTiles(),
    SplitPrecision(),
    SplitOperands(),
    PromotedProducts(),
    JoinedProducts(),
    WideTiles(),
    GroupedOrder(),
    EvenSizes(),
    TensorDescriptors(),
    SplitK(),
    PersistentGrid(),
    SplitProducts(),
    SplitProductsTf32(),
    KeepRow(),
    ProductSchedule(),
)
"""Rules of the same category are tried in this order."""

__all__ = ["RULES", "Machine", "Rewritten", "Rule"]
