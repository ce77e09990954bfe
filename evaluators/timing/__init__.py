"""Time calls: clocks, the L2 flush, interleaved samples, contention."""
