"""Answers questions about a kernel's source: of all languages here, of one in a package or module of its name."""
