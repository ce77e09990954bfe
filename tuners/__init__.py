"""Search over configs: each tuner is one file with the same ask and tell."""

from .hill_climb import HillClimb

__all__ = ["HillClimb"]
