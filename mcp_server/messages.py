"""Messages between the server and the process of a job: JSON, one message per line."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Container
from dataclasses import dataclass
from typing import Any, BinaryIO, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from ..runtime.command import find_commands
from ..runtime.reading import Explanation

_FLAG = re.compile(r"(?<![\w-])--([a-z][a-z0-9-]*[a-z0-9])")
_SPAN = re.compile(r"(`[^`\n]*`)")


class _Message(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class JobStep(_Message):
    """Progress of a job."""

    kind: Literal["step"] = "step"
    done: float
    """Steps that are over: trials, kernels, turns."""
    total: float | None
    text: str


class Done(_Message):
    """The result of a job, with the explanation of a failure for `explain_error`."""

    kind: Literal["done"] = "done"
    result: dict[str, Any]
    explanation: Explanation | None = None


class Refused(_Message):
    """A usage error of the caller: the parts of a `KernelwrightError`."""

    kind: Literal["refused"] = "refused"
    message: str
    hint: str = ""


class Broken(_Message):
    """A bug of kernelwright."""

    kind: Literal["broken"] = "broken"
    text: str


Message: TypeAlias = JobStep | Done | Refused | Broken
_READER: TypeAdapter[Message] = TypeAdapter(Message)


class JobRequest(_Message):
    """The task of a job's process."""

    job: str
    """The name of a command."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Options for `jobs.do`."""


def in_words_of_tools(text: str, options: Container[str]) -> str:
    """Return a command's message with options, and commands that are tools, under the tools' names.

    --workload tiny becomes `workload` tiny; other flags stay, and so do commands with flags.
    """
    parts = _SPAN.split(text)  # every second one is code
    quoted = [_quoted(part[1:-1], options) for part in parts[1::2]]
    plain = [_with_arguments(part, options, "`") for part in parts[::2]]
    return "".join(part for pair in zip(plain, [*quoted, ""], strict=True) for part in pair)


def _quoted(code: str, options: Container[str]) -> str:
    words = code.split(" ")
    if words[0] != "kernelwright":
        return f"`{_with_arguments(code, options)}`"
    tools = {command.path: command.name for command in find_commands()}
    return f"`{tools.get(tuple(words[1:]), code)}`"


def _with_arguments(text: str, options: Container[str], quote: str = "") -> str:
    def flag(match: re.Match[str]) -> str:
        name = match[1].replace("-", "_")
        return f"{quote}{name}{quote}" if name in options else match[0]

    return _FLAG.sub(flag, text)


def read(line: bytes) -> Message:
    """The message in a line."""
    return _READER.validate_json(line)


@dataclass
class Wire:
    """The job's end; lanes write from several threads."""

    file: BinaryIO

    def __post_init__(self) -> None:
        self._lock = threading.Lock()

    def send(self, message: Message) -> None:
        """Write a message; do nothing if the reader is gone."""
        line = json.dumps(message.model_dump(mode="json")).encode() + b"\n"
        with self._lock:
            try:
                self.file.write(line)
                self.file.flush()
            except BrokenPipeError:
                return
