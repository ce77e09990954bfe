"""Searches the parameters of each launch of a kernel file independently of those of the others."""
