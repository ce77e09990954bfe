"""Reads Triton kernels for CUDA."""
