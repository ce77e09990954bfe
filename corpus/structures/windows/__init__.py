"""Sums and maxima over windows: pooling and depthwise convolutions."""
