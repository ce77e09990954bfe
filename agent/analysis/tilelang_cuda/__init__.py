"""Reads TileLang kernels for CUDA."""
