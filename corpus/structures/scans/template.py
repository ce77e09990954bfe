"""The kernel of scans: a row in parts, each continuing from the result of the parts before it."""

TEMPLATE = """
@triton.jit
def $name($pointers, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    row = (tl.program_id(0)$wide * ROWS + tl.arange(0, ROWS))[:, None]
    row_mask = row < $rows
    place = tl.arange(0, COLUMNS)[None, :]$wide
    $first
    for start in range(0, $width, COLUMNS):
        column = start + place
        column_mask = column < $width
        $body
"""
