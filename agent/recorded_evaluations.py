"""Evaluations in the journal of an earlier run, which are not repeated."""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from dataclasses import replace

from ..core import Config, Evaluation, Journal, Kernel, KernelRecord, Profile, ProfileRecord, Trial


class RecordedEvaluations:
    """Writes evaluations to a journal, and returns those of an earlier run.

    A text may have been measured under several names: as its own kernel, or as another at some config. Which one comes
    first depends on timing where lanes run in parallel, so only the text identifies it. The same text may be measured
    more than once in a run (first, and again at the end); records are returned in the order of their creation. Safe to
    use from several threads.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._lock = threading.Lock()
        self._sources = {record.digest: record.source for record in journal.of(KernelRecord)}
        self._earlier = [trial.evaluation for trial in journal.of(Trial) if trial.evaluation.measured]
        self._known: dict[str, deque[Evaluation]] = defaultdict(deque)
        profiles = [record.profile for record in journal.of(ProfileRecord)]
        self.profile: Profile | None = profiles[-1] if profiles else None

    def take(self, bound: Kernel) -> Evaluation | None:
        """Return the next evaluation of a kernel, its parameters bound, by the earlier run, or None."""
        with self._lock:
            for evaluation in self._earlier:
                self._known[self._bound_digest(evaluation, bound)].append(evaluation)
            self._earlier.clear()
            known = self._known[bound.digest]
            return known.popleft() if known else None

    def add(self, kernel: Kernel, evaluation: Evaluation, origin: str, seconds: float) -> None:
        """Write an evaluation, and the kernel's source before its first one."""
        trial = Trial.now(origin, evaluation, seconds)
        with self._lock:
            if kernel.digest not in self._sources:
                self._sources[kernel.digest] = kernel.source
                self._journal.append(KernelRecord(digest=kernel.digest, source=kernel.source))
            self._journal.append(trial)

    def add_profile(self, profile: Profile) -> None:
        """Write the problem's profile."""
        with self._lock:
            self._journal.append(ProfileRecord(profile=profile))

    def _bound_digest(self, evaluation: Evaluation, like: Kernel) -> str:
        """Return the digest of the measured text; all kernels of a run have the same language and target."""
        source = self._sources.get(evaluation.kernel_digest)
        if source is None or not evaluation.config:
            return evaluation.kernel_digest
        return replace(like, source=source).bind(Config(evaluation.config)).digest
