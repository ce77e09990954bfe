"""What all records of a journal have in common: one JSON object a line."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict

JsonObject = dict[str, Any]


class Line(BaseModel):
    """A record of a journal. Each has a `kind` of its own, by which it is read back."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    def to_json(self) -> JsonObject:
        """The object that stands in the journal."""
        return self.model_dump(mode="json", by_alias=True)
