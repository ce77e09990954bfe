"""Answers questions about a kernel's source: general ones here, those of one language in a module of its name."""
