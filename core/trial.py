"""One evaluation as it stands in the journal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from .errors import JournalError
from .evaluation import Evaluation
from .journal import Record


class Trial(BaseModel):
    """An evaluation, what asked for it, and what it cost."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    origin: str
    """'start', 'turn 2: split-grid', 'final', 'list'."""
    evaluation: Evaluation
    seconds: float = Field(ge=0)
    """Wall time of the whole evaluation; those that are timed in turn with each other share theirs equally."""
    at: str = ""
    """When it ended, ISO 8601 in UTC."""

    def record(self) -> Record:
        """The trial as a journal record."""
        return {"kind": "trial", **self.model_dump(mode="json", exclude_none=True)}

    @classmethod
    def from_record(cls, record: Record) -> Trial:
        """The trial that `record` wrote down."""
        return cls.model_validate({key: value for key, value in record.items() if key != "kind"})


def read_trials(records: Iterable[Record], path: Path) -> Iterator[Trial]:
    """The trials among the records of a journal, in order; other kinds are passed over.

    `records` are all of the journal, one a line; `JournalError` names `path` and the line that is no valid trial.
    """
    for line, record in enumerate(records, start=1):
        if record.get("kind") != "trial":
            continue
        try:
            trial = Trial.from_record(record)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"]) or "its whole"
            raise JournalError(
                f"{path}, line {line} is no valid trial: {where}: {first['msg']}; mend or remove that line"
            ) from None
        yield trial
