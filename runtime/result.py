"""What a command returns: one object for Python, for `--json` and for MCP, whose schema is the model's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, Field, GetPydanticSchema
from pydantic_core import core_schema

T = TypeVar("T")
ForPython = Annotated[T, GetPydanticSchema(lambda source, handler: core_schema.any_schema()), Field(exclude=True)]
"""A field of any type that only Python gets: it is in no JSON and no schema."""


class Result(BaseModel):
    """The base of all results.

    Fields and computed fields are what `--json` prints; what only Python needs is `ForPython`.
    """

    model_config = ConfigDict(
        frozen=True, arbitrary_types_allowed=True, use_attribute_docstrings=True, ser_json_inf_nan="constants"
    )

    absent_if_none: ClassVar[tuple[str, ...]] = ()
    """Keys that the JSON has only where there is a value."""

    @property
    def exit_code(self) -> int:
        """The exit code of a command line: 0 where it did what it is for."""
        return 0

    @property
    def failure(self) -> str:
        """What failed, in one line with rich's markup for standard error; '' where there is something to print."""
        return ""

    @property
    def warnings(self) -> Sequence[str]:
        """What makes the figures doubtful, for standard error."""
        return ()

    def to_json(self) -> dict[str, Any]:
        """The result as plain data."""
        found = self.model_dump(mode="json", by_alias=True)
        return {name: value for name, value in found.items() if value is not None or name not in self.absent_if_none}

    def lines(self) -> Iterable[Any]:
        """What a terminal prints of it: texts, which are printed as they are, or what rich draws."""
        return [f"{name}: {value}" for name, value in self.to_json().items()]
