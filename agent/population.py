"""The correct kernels of a run: the best one, and candidates for expansion."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ..core import Evaluation, Kernel
from .turn import Candidate


class Population:
    """All correct kernels by digest. The best is replaced only by one that beats it by more than noise."""

    def __init__(self) -> None:
        self.best: Candidate | None = None
        """None before the first, and when not even the start kernel has passed its last check."""
        self._correct: dict[str, Candidate] = {}
        self._known: set[str] = set()

    def knows(self, kernel: Kernel) -> bool:
        """Return whether the kernel was added before, even if it has failed its last check since."""
        return kernel.digest in self._known

    def beam(self, size: int, without: Collection[str] = ()) -> list[Candidate]:
        """Return the best, then the fastest others: a change that costs time may still lead to the fastest kernel.

        Kernels whose digests are in `without` are left out.
        """
        others = (candidate for candidate in self._correct.values() if candidate is not self.best)
        ranked = sorted(others, key=lambda candidate: candidate.latency_ms)
        every = [*([self.best] if self.best else []), *ranked]
        return [candidate for candidate in every if candidate.kernel.digest not in without][:size]

    def add(self, found: Iterable[Candidate]) -> None:
        """Add new candidates."""
        for candidate in found:
            if not self.knows(candidate.kernel):
                self._known.add(candidate.kernel.digest)
                self._correct[candidate.kernel.digest] = candidate
        self._choose()

    def update(self, candidate: Candidate, again: Evaluation | None) -> None:
        """Replace a candidate's measurement by its last check; without a check or a speedup it is removed."""
        corrected = Candidate(candidate.kernel, again) if again is not None and again.speedup is not None else None
        if corrected is None:
            del self._correct[candidate.kernel.digest]
        else:
            self._correct[candidate.kernel.digest] = corrected
        if candidate is self.best:
            self.best = corrected
        self._choose()

    def _choose(self) -> None:
        fastest = min(self._correct.values(), key=lambda candidate: candidate.latency_ms, default=None)
        if fastest is not None and (self.best is None or fastest.beats(self.best)):
            self.best = fastest
