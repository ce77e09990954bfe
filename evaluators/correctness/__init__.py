"""Compares outputs: tolerances, fp64, inputs, trivial outputs, alternate shapes."""
