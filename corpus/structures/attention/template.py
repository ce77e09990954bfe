"""The kernel of attention: a tile of queries against the keys that it may see, in blocks, online."""

TEMPLATE = """
@triton.jit
def $name($pointers, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr$more):
    tiles = tl.cdiv($queries, BLOCK_M)
    first = $tile * BLOCK_M
    group = tl.program_id(0)$wide // tiles
    query = (first + tl.arange(0, BLOCK_M))[:, None]
    query_mask = query < $queries
    depth_column = tl.arange(0, $depth_block)[None, :]$wide
    depth_column_mask = depth_column < $depth
    depth_row = tl.arange(0, $depth_block)[:, None]$wide
    depth_row_mask = depth_row < $depth
    feature = tl.arange(0, $feature_block)[None, :]$wide
    feature_mask = feature < $features
    $prologue
    most = tl.full([BLOCK_M, 1], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_M, 1], tl.float32)
    accumulator = tl.zeros([BLOCK_M, $feature_block], tl.float32)
    last = tl.minimum(first + BLOCK_M, $queries) - 1
    begin = $begin
    end = $end
    $share
    for start in range(begin, end, BLOCK_N):
        key = (start + tl.arange(0, BLOCK_N))[None, :]$wide
        key_mask = key < $keys
        key_row = (start + tl.arange(0, BLOCK_N))[:, None]$wide
        key_row_mask = key_row < $keys
        $scores
        most_now = tl.maximum(most, tl.max(scores, 1)[:, None])
        finite = tl.where(most_now == float("-inf"), 0.0, most_now)
        weights = tl.exp2((scores - finite) * 1.4426950408889634)
        kept = tl.exp2((most - finite) * 1.4426950408889634)
        total = total * kept + tl.sum(weights, 1)[:, None]
        $values
        most = most_now
    $epilogue
"""
SHARE = """
split = tl.program_id(1)
share = tl.cdiv(tl.cdiv(end - begin, BLOCK_N), SPLITS) * BLOCK_N
begin += split * share
end = tl.minimum(begin + share, end)
"""
"""The part of the keys that a program sees."""
