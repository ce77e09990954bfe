"""Decide what a kernel is worth: on this machine, in processes of their own."""
