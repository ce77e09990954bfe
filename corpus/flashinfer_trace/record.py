"""Base class of all records of a dataset."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Text = Annotated[str, Field(min_length=1)]
FileName = Annotated[str, Field(pattern=r"^\w[\w.-]*$")]
"""A text that files and folders are named after."""
Count = Annotated[int, Field(ge=0)]


class Record(BaseModel):
    """A record that keeps unknown fields, since other tools read the files that are written back."""

    model_config = ConfigDict(frozen=True, extra="allow", ser_json_inf_nan="strings")

    def to_json(self, indent: int | None = None) -> str:
        """Return the record as JSON, with the fields that it was given; infinities and NaN are texts."""
        return self.model_dump_json(exclude_unset=True, indent=indent)
