"""The kernel of the largest elements of short rows: the rows stay in registers, and give one element at a time.

Elements are compared as integers in the same order, in which NaN is the largest, as torch has it.
"""

TEMPLATE = """
@triton.jit
def $name($pointers, ROWS: tl.constexpr):
    row = (tl.program_id(0)$wide * ROWS + tl.arange(0, ROWS))[:, None]
    row_mask = row < $rows
    column = tl.arange(0, $block)[None, :]$wide
    column_mask = column < $width
    $body
    bits = elements.to(tl.int32, bitcast=True)
    keys = $sign(tl.where(elements != elements, 0x7FFFFFFF, bits ^ ((bits >> 31) & 0x7FFFFFFF)))
    left = tl.broadcast_to(column_mask, [ROWS, $block])
    for place in tl.static_range($count):
        present = tl.where(left, keys, -0x80000000)
        best = tl.max(present, 1)[:, None]
        chosen = tl.min(tl.where(left & (present == best), column, $block), 1)[:, None]
        left = left & (column != chosen)
        key = $sign(best)
        value = (key ^ ((key >> 31) & 0x7FFFFFFF)).to(tl.float32, bitcast=True)
        $stores
"""
