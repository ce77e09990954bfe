"""Reductions over rows, with what is element-wise before and after."""
