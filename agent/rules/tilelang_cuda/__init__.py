"""Rewrite rules for TileLang kernels on CUDA."""
