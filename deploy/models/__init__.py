"""Whole models: regions of the graphs that torch.compile gets, the store of what was found for them, and the backend.

A region is written as the source of a reference (`region.py`); this text is its key, and the problem that is optimized.
"""
