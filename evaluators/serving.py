"""The loop of a worker: one request, one answer, until the channel closes."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping

from .channel import Channel, ChannelClosed, Message

Handler = Callable[..., Message]


def serve_requests(
    channel: Channel, handlers: Mapping[str, Handler], failed: Callable[[BaseException], Message]
) -> None:
    """Answer {"op": name, ...} by the handler of that name: {"ok": true, ...}, or {"ok": false, **failed(error)}."""
    import torch

    with torch.no_grad():
        while True:
            try:
                request = channel.receive()
            except ChannelClosed:
                return
            handler = handlers[request.pop("op")]
            try:
                answer = {"ok": True, **handler(**request)}
            except (Exception, SystemExit) as error:  # whatever the code under test raises is its verdict
                answer = {"ok": False, **failed(error)}
            channel.send(answer)


def describe(error: BaseException) -> str:
    """The exception with the lines of the user's file that it passed through."""
    if isinstance(error, SystemExit):
        return f"the kernel called exit({error.code!r})"
    if isinstance(error, MemoryError):
        return "MemoryError: the kernel went beyond its memory limit"
    where = [
        f"line {frame.lineno}: {frame.line}"
        for frame in traceback.extract_tb(error.__traceback__)
        if "/candidate-" in frame.filename and frame.filename.endswith(".py")
    ]
    return "\n".join([_shorten(f"{type(error).__name__}: {error}".strip()), *where[-3:]])


def _shorten(text: str, limit: int = 2000) -> str:
    return text if len(text) <= limit else f"{text[: limit // 2]}\n[...]\n{text[-limit // 2 :]}"
