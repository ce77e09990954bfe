"""One exchange with a language model as the transcript holds it: what was sent, and what came back."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, JsonValue, SerializerFunctionWrapHandler, model_serializer


class _Parts(BaseModel):
    """What is absent is not written."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @model_serializer(mode="wrap")
    def _without_absent(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in handler(self).items() if value not in (None, (), [])}


class ModelToolCall(BaseModel):
    """A tool that the model calls."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    name: str
    arguments: dict[str, JsonValue]


class ModelToolResult(BaseModel):
    """What a tool answered the model."""

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
        """Whether it has no text, tool call or tool result."""
        return not (self.text or self.tool_calls or self.tool_results)


class Request(BaseModel):
    """What was sent to a model."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    system: str | None = None
    messages: tuple[Message, ...]
    tools: tuple[str, ...] = ()
    """Names of the tools on offer."""
    settings: dict[str, JsonValue] = Field(default_factory=dict)
    """Those that were set: temperature, max_tokens, tool_choice."""


class Reply(_Parts):
    """What a model answered; all is optional, since a person may write it."""

    text: str | None = None
    tool_calls: tuple[ModelToolCall, ...] = ()
    tool_results: tuple[ModelToolResult, ...] = ()
    finish_reason: str | None = None
    input_tokens: int | None = Field(default=None, ge=0)
    output_tokens: int | None = Field(default=None, ge=0)

    @property
    def tokens(self) -> int:
        """Tokens of the request and of the reply."""
        return (self.input_tokens or 0) + (self.output_tokens or 0)
