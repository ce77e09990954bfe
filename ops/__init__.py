"""Operators that take their configs from tuned files when they run."""
