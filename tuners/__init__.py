"""Search over configs: each tuner a file behind the same ask and tell."""

from .hill_climb import HillClimb

__all__ = ["HillClimb"]
