"""The budget of a parameter search, by the kernel's compile and evaluation times."""

from __future__ import annotations

import math

from ..core import Budget, Evaluation, SearchSpace

FEWEST, MOST = 16, 64
"""Trials; a smaller space is searched whole."""
SAMPLES = 60
"""Calls that a quick evaluation times at most, with its warm-up."""
SHORTEST_S, LONGEST_S = 0.05, 0.4
"""Bounds of a quick timing."""
CHECK_S = 0.1
"""Overhead of a quick evaluation in seconds: a comparison with the reference, and communication."""
COMPILE_S = 2.0
"""Compile time in seconds that is assumed if it was not measured."""
SLACK = 2.0
"""Factor by which a search may exceed its estimate: some configs compile slowly, or hang."""
LEAST_S, MOST_S = 5.0, 60.0


def effort(space: SearchSpace, timed: Evaluation, compilers: int) -> Budget:
    """Return trials and seconds for a search of the space, from an evaluation of the kernel or of a similar one.

    The number of trials grows with the square root of the space, since a tuner need not visit all of it; the seconds
    are the estimated duration of those trials with the given number of compilers.
    """
    wanted = FEWEST + 2 * math.isqrt(space.cardinality)
    trials = min(space.cardinality, MOST, wanted)
    timing_s = min(LONGEST_S, max(SHORTEST_S, SAMPLES * (timed.latency_ms or 0.0) / 1000))
    compile_s = COMPILE_S if timed.compile_s is None else timed.compile_s
    workloads = max(1, len(timed.workloads))
    each_s = compile_s / max(1, compilers) + workloads * (timing_s + CHECK_S)
    return Budget(trials=trials, seconds=round(min(MOST_S, max(LEAST_S, SLACK * trials * each_s)), 1))
