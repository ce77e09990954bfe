"""Structures: patterns on the graph of operators, each with the template of a kernel (docs/structures.md)."""
