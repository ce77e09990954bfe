"""Rewrite rules for TileLang kernels on CUDA, and the matcher and the reader of their files that the rules share."""
