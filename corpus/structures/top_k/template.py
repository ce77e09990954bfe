"""The kernel of the largest elements of short rows: the rows stay in registers, and give one element at a time."""

TEMPLATE = """
@triton.jit
def $name($pointers, ROWS: tl.constexpr):
    row = (tl.program_id(0)$wide * ROWS + tl.arange(0, ROWS))[:, None]
    row_mask = row < $rows
    column = tl.arange(0, $block)[None, :]
    column_mask = column < $width
    $body
    left = tl.broadcast_to(column_mask, [ROWS, $block])
    for place in tl.static_range($count):
        present = tl.where(left, keys, float("-inf"))
        best = tl.max(present, 1)[:, None]
        chosen = tl.min(tl.where(left & (present == best), column, $block), 1)[:, None]
        left = left & (column != chosen)
        $stores
"""
