"""The loop of a worker: one request, one response, until the channel closes."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping

from .channel import Channel, ChannelClosed, Message
from .memory import RequestMemory

CAUSES = 3
"""Maximum number of exceptions of a chain that are reported."""
LONGEST = 2000
"""Characters of an exception's text; of a longer one the middle is left out."""
Handler = Callable[..., Message]
GPU_FAULTS = ("device-side assert", "illegal memory access", "misaligned address", "unspecified launch failure")
"""Errors after which a process cannot use its GPU; they may only show when a compiler loads the next kernel."""

_HINTS = (
    "Search for `cudaError",
    "CUDA kernel errors might be asynchronously reported",
    "For debugging consider passing CUDA_LAUNCH_BLOCKING",
    "Compile with `TORCH_USE_CUDA_DSA`",
    "Device-side assertion tracking was not enabled",
)


def serve_requests(
    channel: Channel,
    handlers: Mapping[str, Handler],
    failed: Callable[[BaseException], Message],
    device: str = "cpu",
    begun: Callable[[str], object] = lambda nonce: None,
) -> None:
    """Serve {"op": name, ...} by the handler of that name: {"ok": true, ...}, or {"ok": false, **failed(error)}.

    The response repeats the request's nonce, which an unsolicited message cannot know, and has the request's memory.
    `begun` is told the nonce of each request, for an answer by other means.
    """
    import torch

    memory = RequestMemory(device)
    with torch.no_grad():
        while True:
            try:
                request = channel.receive()
            except ChannelClosed:
                return
            handler, nonce = handlers[request.pop("op")], request.pop("nonce")
            memory.restart()
            begun(nonce)
            try:
                answer = {"ok": True, **handler(**request)}
            except (Exception, SystemExit) as error:  # any exception of the code under test is its result
                answer = {"ok": False, **failed(error)}
            channel.send({**answer, **memory.described(), "nonce": nonce})


def describe(error: BaseException) -> str:
    """Return the exception with the lines of the user's file that it passed through."""
    if isinstance(error, SystemExit):
        return f"the kernel called exit({error.code!r})"
    if isinstance(error, MemoryError):
        return "MemoryError: the kernel went beyond its memory limit"
    parts = []
    for item in _chain(error):
        where = [
            f"line {frame.lineno}: {frame.line}"
            for frame in traceback.extract_tb(item.__traceback__)
            if "/candidate-" in frame.filename and frame.filename.endswith(".py")
        ]
        parts += [_shorten(f"{type(item).__name__}: {_without_hints(text_of(item))}".strip()), *where[-3:]]
    # Invalid characters could be stored, but not displayed.
    return "\n".join(parts).encode(errors="backslashreplace").decode()


def text_of(error: BaseException) -> str:
    """Return an exception's text; its class may be the kernel's own, and its `__str__` may raise."""
    try:
        return str(error)
    except Exception as another:
        return f"(no text: its __str__ raises {type(another).__name__})"


def _without_hints(text: str) -> str:
    """Return torch's message of a CUDA error without its lines of advice, which do not apply here."""
    return "\n".join(line for line in text.splitlines() if not line.startswith(_HINTS)).strip()


def _chain(error: BaseException) -> list[BaseException]:
    """Return the exception and its causes: Triton reports a function's mistake only in the cause."""
    chain = [error]
    while (cause := chain[-1].__cause__) is not None and cause not in chain and len(chain) < CAUSES:
        chain.append(cause)
    return chain


def _shorten(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST // 2]}\n[...]\n{text[-LONGEST // 2 :]}"
