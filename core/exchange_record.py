"""Transcript records: one exchange with a language model, with its request and reply."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, JsonValue, SerializerFunctionWrapHandler, model_serializer


class _Parts(BaseModel):
    """Base of records that omit absent fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @model_serializer(mode="wrap")
    def _without_absent(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in handler(self).items() if value not in (None, (), [])}


class ModelToolCall(BaseModel):
    """A call of a tool by the model."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    name: str
    arguments: dict[str, JsonValue]


class ModelToolResult(BaseModel):
    """The reply of a tool to the model."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    name: str
    text: str


class Message(_Parts):
    """One message of a conversation with a model."""

    role: str
    """system, user, assistant or tool."""
    text: str | None = None
    tool_calls: tuple[ModelToolCall, ...] = ()
    tool_results: tuple[ModelToolResult, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether the message has no text, tool call or tool result."""
        return not (self.text or self.tool_calls or self.tool_results)


class Request(BaseModel):
    """A request to a model."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    system: str | None = None
    messages: tuple[Message, ...]
    tools: tuple[str, ...] = ()
    """Names of the offered tools."""
    settings: dict[str, JsonValue] = Field(default_factory=dict)
    """Settings of the request: temperature, max_tokens, tool_choice."""


class Reply(_Parts):
    """A reply of a model. All fields are optional, since a person may write it."""

    text: str | None = None
    tool_calls: tuple[ModelToolCall, ...] = ()
    tool_results: tuple[ModelToolResult, ...] = ()
    finish_reason: str | None = None
    input_tokens: int | None = Field(default=None, ge=0)
    output_tokens: int | None = Field(default=None, ge=0)

    @property
    def tokens(self) -> int:
        """Number of tokens in request and reply."""
        return (self.input_tokens or 0) + (self.output_tokens or 0)
