"""The kernel of element-wise operators."""

TEMPLATE = """
@triton.jit
def $name($pointers, XBLOCK: tl.constexpr$more):
    x = tl.program_id(0)$wide * XBLOCK + tl.arange(0, XBLOCK)
    x_mask = x < $size
    $body
"""
