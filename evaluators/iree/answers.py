"""The valid answers of the process that runs modules: their machine code could send any other."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from ...core import Status
from ..workers.channel import Message

TEXT_LENGTH = 2000
_Text = Annotated[str, Field(max_length=TEXT_LENGTH)]
_Size = Annotated[float, Field(ge=0, allow_inf_nan=False)]
_Samples = Annotated[list[Annotated[float, Field(gt=0, allow_inf_nan=False)]], Field(min_length=1)]


class _Answer(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _Compared(_Answer):
    """See `comparison.Difference`."""

    status: Status
    message: _Text
    max_abs_error: _Size
    max_rel_error: _Size
    rms_error: _Size | None
    tolerance: _Size


class _Drawn(_Compared):
    own_error: _Size | None


class _Checked(_Compared):
    deterministic: bool


class _Timed(_Answer):
    samples_ms: _Samples
    host_ms: _Samples | None = None
    cores: _Size
    method: _Text


class _Failed(_Answer):
    error: _Text


_ANSWERS: dict[str, type[_Answer]] = {"draw": _Drawn, "check": _Checked, "time": _Timed}


def read_answer(op: str, told: Message) -> dict[str, Any]:
    """Return the answer to a request, or {"error": why it failed}; raises `ValidationError` for any other."""
    ok = told.pop("ok", None)
    form = _ANSWERS.get(op, _Answer) if ok is True else _Failed
    return form.model_validate(told).model_dump(exclude_none=op == "time")
