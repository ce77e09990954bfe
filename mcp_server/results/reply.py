"""The base of all replies."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Reply(BaseModel):
    """A part of what a tool returns."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


def disturbed(cores: float | None) -> list[str]:
    """The warning of a measurement beside other processes."""
    return [] if cores is None else [f"other processes used {cores:.1f} cores meanwhile: measure again"]
