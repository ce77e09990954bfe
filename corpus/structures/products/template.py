"""The kernel of matrix products: tiles of the result, the operands read in blocks along the sum."""

TEMPLATE = """
@triton.jit
def $name($pointers, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr$more):
    tiles_m = tl.cdiv($m, BLOCK_M)
    tiles_n = tl.cdiv($n, BLOCK_N)
    program = tl.program_id(0) % (tiles_m * tiles_n)
    batch = tl.program_id(0)$wide // (tiles_m * tiles_n)
    group = program // (GROUP_M * tiles_n)
    height = tl.minimum(tiles_m - group * GROUP_M, GROUP_M)
    tile_m = group * GROUP_M + program % (GROUP_M * tiles_n) % height
    tile_n = program % (GROUP_M * tiles_n) // height
    row = (tile_m$wide * BLOCK_M + tl.arange(0, BLOCK_M))[:, None]
    row_mask = row < $m
    column = (tile_n$wide * BLOCK_N + tl.arange(0, BLOCK_N))[None, :]
    column_mask = column < $n
    $accumulators
    $share
    $loops
    $epilogue
"""
LOOP = """
for start in range($begin, $end, BLOCK_K):
    sum_column = (start + tl.arange(0, BLOCK_K))[None, :]$wide
    sum_column_mask = sum_column < $k
    sum_row = (start + tl.arange(0, BLOCK_K))[:, None]$wide
    sum_row_mask = sum_row < $k
    $operands
"""
"""The steps of sums of one length."""
SHARE = """
split = tl.program_id(1)
share = tl.cdiv($k, BLOCK_K * SPLITS) * BLOCK_K
begin = split * share
end = tl.minimum(begin + share, $k)
"""
"""The part of the sum that a program computes."""
