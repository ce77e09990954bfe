"""Element-wise operators alone, fused."""
