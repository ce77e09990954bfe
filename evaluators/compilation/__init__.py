"""Compiles kernels ahead of their measurement, in processes that run nothing on the device."""
