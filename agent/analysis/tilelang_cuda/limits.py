"""What a GPU of compute capability 9.0 allows, and the choices that TileLang has for a product."""

SHARED_BYTES = 227 * 1024
"""Of one block."""
POLICIES = ("Square", "FullRow", "FullCol")
"""How the warps share a product's tile (`T.GemmWarpPolicy`)."""
