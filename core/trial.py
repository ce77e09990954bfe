"""One evaluation as it stands in the journal."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from .evaluation import Evaluation


class Trial(BaseModel):
    """An evaluation, what asked for it, and what it cost."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    origin: str
    """'start', 'turn 2: split-grid', 'final', 'list'."""
    evaluation: Evaluation
    seconds: float = Field(ge=0)
    """Wall time of the whole evaluation."""
    at: str = ""
    """When it ended, ISO 8601 in UTC."""

    def record(self) -> dict[str, Any]:
        """The trial as a journal record."""
        return {"kind": "trial", **self.model_dump(mode="json", exclude_none=True)}

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Trial:
        """The trial that `record` wrote down."""
        return cls.model_validate({key: value for key, value in record.items() if key != "kind"})
