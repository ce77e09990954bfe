"""The kernels of reductions over rows: a row at once in registers, or in several passes over its parts."""

ONE_PASS = """
@triton.jit
def $name($pointers, ROWS: tl.constexpr):
    row = (tl.program_id(0)$wide * ROWS + tl.arange(0, ROWS))[:, None]
    row_mask = row < $rows
    column = tl.arange(0, $block)[None, :]$wide
    column_mask = column < $width
    $body
"""
PASSES = """
@triton.jit
def $name($pointers, ROWS: tl.constexpr, COLUMNS: tl.constexpr$more):
    row = (tl.program_id(0)$wide * ROWS + tl.arange(0, ROWS))[:, None]
    row_mask = row < $rows
    $share
    $body
"""
SHARE = """
split = tl.program_id(1)
share = tl.cdiv($width, COLUMNS * SPLITS) * COLUMNS
begin = split * share
end = tl.minimum(begin + share, $width)
"""
"""The part of a row that a program computes."""
LOOP = """
for start in range($begin, $end, COLUMNS):
    column = start + tl.arange(0, COLUMNS)[None, :]$wide
    column_mask = column < $width
    $body
"""
