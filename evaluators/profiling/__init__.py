"""Metrics of a device and of kernels: peaks, operation counts, occupancy, profilers."""
