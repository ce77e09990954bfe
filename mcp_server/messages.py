"""What the server and the process of a job say to each other: JSON, one message a line."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from typing import Any, BinaryIO, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from .results.reading import Explanation


class _Message(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Step(_Message):
    """How far a job is."""

    kind: Literal["step"] = "step"
    done: float
    """Steps that are over: trials, kernels, turns."""
    total: float | None
    text: str


class Done(_Message):
    """The result of a job; with it the explanation of a failure, which `explain_error` shows."""

    kind: Literal["done"] = "done"
    result: dict[str, Any]
    explanation: Explanation | None = None


class Refused(_Message):
    """A mistake of the caller's: the parts of a `KernelwrightError`."""

    kind: Literal["refused"] = "refused"
    message: str
    hint: str = ""


class Broken(_Message):
    """A mistake of ours."""

    kind: Literal["broken"] = "broken"
    text: str


Message: TypeAlias = Step | Done | Refused | Broken
_READER: TypeAdapter[Message] = TypeAdapter(Message)


class Request(_Message):
    """What the process of a job is to do."""

    job: str
    """A name of `worker.JOBS`."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Of the function of `api`, by name."""


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
        """Write a message; without effect where nobody reads any more."""
        line = json.dumps(message.model_dump(mode="json")).encode() + b"\n"
        with self._lock:
            try:
                self.file.write(line)
                self.file.flush()
            except BrokenPipeError:
                return
