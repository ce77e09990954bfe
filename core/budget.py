"""Limits on a run."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class Budget(BaseModel):
    """Limits; None means no limit. The same type holds what was spent."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    trials: int | None = Field(default=None, ge=0)
    seconds: float | None = Field(default=None, ge=0)
    tokens: int | None = Field(default=None, ge=0)
    dollars: float | None = Field(default=None, ge=0)

    def exhausted(self, spent: Budget) -> str | None:
        """Return which limit the spending has reached, in words, or None."""
        for name in type(self).model_fields:
            limit, used = getattr(self, name), getattr(spent, name)
            if limit is not None and used is not None and used >= limit:
                return f"budget of {limit:g} {name} used up"
        return None
