"""Evaluates kernels: correctness and speed, on this machine or others, in separate processes."""
