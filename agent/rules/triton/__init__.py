"""Rewrite rules for Triton kernels, and the reader and the editor of their files that the rules share."""
