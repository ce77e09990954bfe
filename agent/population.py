"""The right kernels of a run: which is the best, and which are worth expanding."""

from __future__ import annotations

from collections.abc import Iterable

from ..core import Evaluation, Kernel
from .turn import Candidate


class Population:
    """All right kernels by their digests. The best stays the best until another beats it by more than noise."""

    def __init__(self) -> None:
        self.best: Candidate | None = None
        """None before the first, and when not even the start kernel has passed its last check."""
        self._right: dict[str, Candidate] = {}
        self._known: set[str] = set()

    def knows(self, kernel: Kernel) -> bool:
        """Whether it was added before, even if it has failed its last check since."""
        return kernel.digest in self._known

    def beam(self, size: int) -> list[Candidate]:
        """The best, then the fastest of the others: a change that costs time may still lead to the fastest kernel."""
        others = (candidate for candidate in self._right.values() if candidate is not self.best)
        ranked = sorted(others, key=lambda candidate: candidate.latency_ms)
        return [*([self.best] if self.best else []), *ranked][:size]

    def add(self, found: Iterable[Candidate]) -> None:
        """Take in what is new."""
        for candidate in found:
            if not self.knows(candidate.kernel):
                self._known.add(candidate.kernel.digest)
                self._right[candidate.kernel.digest] = candidate
        self._choose()

    def correct(self, candidate: Candidate, again: Evaluation) -> None:
        """Let its last check count from here on; without a speedup it is out."""
        corrected = Candidate(candidate.kernel, again) if again.speedup is not None else None
        if corrected is None:
            del self._right[candidate.kernel.digest]
        else:
            self._right[candidate.kernel.digest] = corrected
        if candidate is self.best:
            self.best = corrected
        self._choose()

    def _choose(self) -> None:
        fastest = min(self._right.values(), key=lambda candidate: candidate.latency_ms, default=None)
        if fastest is not None and (self.best is None or fastest.beats(self.best)):
            self.best = fastest
