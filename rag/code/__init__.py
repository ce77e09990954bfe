"""Finds what kernels compute, and which compute the same, from the syntax tree, not from names or comments."""
