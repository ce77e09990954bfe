"""Verified results as PyTorch operators: packages that need only torch and the kernel's language.

`package/` holds the modules that every deployed package gets as they are; what differs is its table, the kernels, the
reference and a few rendered files.
"""
