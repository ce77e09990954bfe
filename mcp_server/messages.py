"""Messages between the server and the process of a job: JSON, one message per line."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from typing import Any, BinaryIO, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from ..runtime.reading import Explanation


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
    """A mistake of the caller's: the parts of a `KernelwrightError`."""

    kind: Literal["refused"] = "refused"
    message: str
    hint: str = ""


class Broken(_Message):
    """A mistake of ours."""

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
