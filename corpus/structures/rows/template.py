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
def $name($pointers, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    row = (tl.program_id(0)$wide * ROWS + tl.arange(0, ROWS))[:, None]
    row_mask = row < $rows
    $body
"""
LOOP = """
for start in range(0, $width, COLUMNS):
    column = start + tl.arange(0, COLUMNS)[None, :]$wide
    column_mask = column < $width
    $body
"""
