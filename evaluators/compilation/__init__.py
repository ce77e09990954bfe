"""Compile kernels ahead of measuring them, in processes that run nothing on the device."""
