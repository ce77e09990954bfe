"""Whether a journal is of the run that goes on with it."""

from __future__ import annotations

from ..core import Journal, JournalError
from ..core.records import RunRecord


def require_same(journal: Journal, this: RunRecord) -> None:
    """Write the run's identity, or raise `JournalError` for the journal of another run."""
    known = next(journal.of(RunRecord), None)
    if known is None:
        journal.append(this)
    elif different := known.changed(this):
        raise JournalError(
            f"{journal.path} is of another run: {', '.join(different)} changed", "leave `resume` out to start again"
        )
