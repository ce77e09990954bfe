"""Rewrite rules for Triton kernels."""
