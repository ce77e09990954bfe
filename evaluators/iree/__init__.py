"""Modules that IREE compiles: compiled in processes, verified, timed through IREE's runtime."""
