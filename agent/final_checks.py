"""Final checks of a run's fastest kernels, timed with the start, and repeated if other processes disturb them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from ..core import Evaluation, Kernel
from .population import Population
from .stopping import StoppingCriteria
from .turn import Candidate
from .workbench import LastCheck, Workbench

CHECKS = 3
"""Most attempts at a kernel's final check while other processes disturb it, and not all else of the run."""


class FinalChecks:
    """Checks the best of a population, and replaces its earlier measurement by the check's."""

    def __init__(self, workbench: Workbench, population: Population, criteria: StoppingCriteria, start: Kernel) -> None:
        self.refusal: str | None = None
        """Why the latest kernel that was refused does not count."""
        self.cut_short: str | None = None
        """Why the machine did not let a last check be made, so that what was proven before counts."""
        self._workbench = workbench
        self._population = population
        self._criteria = criteria
        self._start = start
        # The result of a kernel's last check, by its digest.
        self._finals: dict[str, LastCheck] = {}
        self._checks: Counter[str] = Counter()
        # Disturbed checks that are made again.
        self._repeated: dict[str, LastCheck] = {}

    def winner(self, busy: bool = False) -> tuple[Kernel, LastCheck] | None:
        """Return the fastest kernel that passes, with its check; None if none does.

        It is the start if no kernel is significantly faster: among many noisy trials one always looks faster. On a
        machine that was `busy` so far, disturbed checks are made again once.
        """
        self.renew()
        while (best := self._population.best) is not None:
            if (earlier := self._earlier(best)) is not None:
                return best.kernel, earlier
            if self._disturbed(self._check(best)) and not busy:
                self.renew()
            elif self._is_final(best):
                check = self._check(best)
                if best.kernel.digest == self._start.digest or faster(check):
                    return best.kernel, check
                self.refusal = self._refusal(LastCheck(check.start, check.start))
                return None if self.refusal else (self._start, LastCheck(check.start, check.start))
        return None

    def confirms(self, reached: Callable[[Evaluation], bool]) -> bool:
        """Return whether the best kernel meets the condition again, in a fresh process and without other lanes.

        The best of many noisy trials looks faster than it is, so the new measurement replaces the old one.
        """
        while (best := self._population.best) is not None and reached(best.evaluation):
            if not self._check(best).measured:
                del self._finals[best.kernel.digest]  # it is made again at the end
                return False
            if self._disturbed(self._check(best)):
                return False  # the earlier metrics count until the next opportunity
            if self._is_final(best):
                return best.evaluation.contention is None
        return False

    def _earlier(self, best: Candidate) -> LastCheck | None:
        """Return the evaluations of before where the machine does not let the kernel be checked again."""
        check = self._check(best)
        if check.measured:
            return None
        failed = next(item for item in (check.found, check.start) if not item.measured)
        self.cut_short = failed.message
        return LastCheck(best.evaluation, self._workbench.start or best.evaluation)

    def _check(self, best: Candidate) -> LastCheck:
        """Return the kernel's last check, and make it when there is none."""
        digest = best.kernel.digest
        if digest not in self._finals:
            made = self._workbench.check_last(best.kernel, self._start)
            before = self._repeated.pop(digest, made)
            # The least disturbed of several checks counts. A failed check counts in any case.
            keep = made.found.speedup is not None and (made.contention or 0.0) > (before.contention or 0.0)
            self._finals[digest] = before if keep else made
            self._checks[digest] += 1
        return self._finals[digest]

    def _disturbed(self, check: LastCheck) -> bool:
        """Return whether other processes disturbed a check, and it may be repeated."""
        return check.contention is not None and self._checks[check.found.kernel_digest] < CHECKS

    def renew(self) -> None:
        """Let the disturbed checks be made again."""
        self._repeated |= {digest: final for digest, final in self._finals.items() if self._disturbed(final)}
        self._finals = {digest: final for digest, final in self._finals.items() if digest not in self._repeated}

    def _is_final(self, best: Candidate) -> bool:
        """Return whether these metrics are from the kernel's final check; if not, replace them by the check's."""
        check = self._check(best)
        refusal = self._refusal(check)
        self.refusal = refusal or self.refusal
        if best.evaluation is check.found:
            return True
        self._population.update(best, check.found if refusal is None else None)
        return False

    def _refusal(self, check: LastCheck) -> str | None:
        """Return why a checked kernel does not count; what it may not lose is what the start had beside it."""
        criteria = self._criteria if check.start.latency_ms is None else replace(self._criteria, start=check.start)
        return criteria.refusal(check.found)


def faster(check: LastCheck) -> bool:
    """Return whether the kernel is faster than the start beyond doubt, or that one cannot be measured any more."""
    if check.start.latency_ms is None:
        return True
    gain = check.found.gain_over(check.start)
    return gain is not None and gain.low > 1.0
