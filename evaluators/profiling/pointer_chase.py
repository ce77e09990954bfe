"""A Triton kernel that reads a chain of addresses one after the other; imported only where Triton is installed."""

import triton
import triton.language as tl


@triton.jit
def chase(chain, end, steps):  # type: ignore[no-untyped-def]
    """Follow `steps` links from place 0 and store where they lead."""
    at = tl.load(chain)
    for _ in range(1, steps):
        at = tl.load(chain + at)
    tl.store(end, at)
