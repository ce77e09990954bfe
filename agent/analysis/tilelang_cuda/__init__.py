"""Reads TileLang kernels for CUDA: what a rule may ask, and what several of them write."""
