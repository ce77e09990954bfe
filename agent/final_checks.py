"""The last checks of a run's fastest kernels: each in a fresh process, made again while other processes disturb it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from ..core import Config, Evaluation
from .population import Population
from .stopping import StoppingCriteria
from .turn import Candidate
from .workbench import Workbench

CHECKS = 3
"""How often a kernel's final check is made at most while other processes disturb it."""


class FinalChecks:
    """Checks the best of a population, and replaces its earlier measurement by the check's."""

    def __init__(self, workbench: Workbench, population: Population, criteria: StoppingCriteria) -> None:
        self.refusal: str | None = None
        """Why the latest kernel that was refused does not count."""
        self._workbench = workbench
        self._population = population
        self._criteria = criteria
        # The result of a kernel's last check, by its digest.
        self._finals: dict[str, Evaluation] = {}
        self._checks: Counter[str] = Counter()
        # Disturbed checks that are made again.
        self._repeated: dict[str, Evaluation] = {}

    def winner(self) -> Candidate | None:
        """Return the fastest kernel that passes; None where none does."""
        while (best := self._population.best) is not None:
            self.renew()
            if not self._disturbed(self._check(best)) and self._is_final(best):
                return best
        return None

    def confirms(self, reached: Callable[[Evaluation], bool]) -> bool:
        """Return whether the best kernel meets the condition again, in a fresh process and without other lanes.

        The best of many noisy trials looks faster than it is, so the new measurement replaces the old one.
        """
        while (best := self._population.best) is not None and reached(best.evaluation):
            if self._disturbed(self._check(best)):
                return False  # the earlier metrics count until the next opportunity
            if self._is_final(best):
                return best.evaluation.contention is None
        return False

    def _check(self, best: Candidate) -> Evaluation:
        """Return the kernel's last check, and make it when there is none."""
        digest = best.kernel.digest
        if digest not in self._finals:
            found = self._workbench.evaluate(best.kernel, Config(), "final", again=True)
            before = self._repeated.pop(digest, found)
            # Of several disturbed ones the least disturbed counts; one that fails counts in any case.
            keep = found.speedup is not None and (found.contention or 0.0) > (before.contention or 0.0)
            self._finals[digest] = before if keep else found
            self._checks[digest] += 1
        return self._finals[digest]

    def _disturbed(self, final: Evaluation) -> bool:
        """Return whether other processes disturbed a check, and it may be repeated."""
        return final.contention is not None and self._checks[final.kernel_digest] < CHECKS

    def renew(self) -> None:
        """Let the disturbed checks be made again."""
        self._repeated |= {digest: final for digest, final in self._finals.items() if self._disturbed(final)}
        self._finals = {digest: final for digest, final in self._finals.items() if digest not in self._repeated}

    def _is_final(self, best: Candidate) -> bool:
        """Return whether these metrics are those of the kernel's last check; if not, replace them by the check's."""
        final = self._check(best)
        self.refusal = self._criteria.refusal(final) or self.refusal
        if best.evaluation is final:
            return True
        self._population.update(best, final if self._criteria.refusal(final) is None else None)
        return False
