"""Whole models: regions of torch.compile's graphs, the store of their results, and the backend.

A region is written as the source of a reference (`region.py`); this text is its key, and the problem that is optimized.
"""
