"""Reductions over rows, with the element-wise operators before and after."""
