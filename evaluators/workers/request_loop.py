"""The loop of a worker: one request, one response, until the channel closes."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from pathlib import Path

from .channel import Channel, ChannelClosedError, Message
from .memory import RequestMemory

CAUSES = 3
"""Maximum number of exceptions of a chain that are reported."""
LINES = 3
"""Lines of the user's file for each of them."""
CALL_FILE = "call.py"
"""The file that calls a user's function: nothing of the user's."""
USER_FILES: dict[str, str] = {}
"""Files and folders of a user's package, and candidates' files that stand in their places: what they are called."""
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
    `begun` is called with the nonce of each request, for an answer by other means.
    """
    import torch

    memory = RequestMemory(device)
    with torch.no_grad():
        while True:
            try:
                request = channel.receive()
            except ChannelClosedError:
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
    parts: list[str] = []
    passed: list[str] = []
    for item in _chain(error):
        passed += [
            f"{file}line {frame.lineno}: {frame.line}"
            for frame in traceback.extract_tb(item.__traceback__)
            if (file := _file(frame.filename)) is not None
        ][-LINES:]
        if not _repeats_cause(item):
            text = _shorten(f"{type(item).__name__}: {_without_hints(text_of(item))}".strip())
            parts += [text, *passed[-2 * LINES :]]
            passed = []
    # Invalid characters could be stored, but not displayed.
    return "\n".join(parts).encode(errors="backslashreplace").decode()


def _file(path: str) -> str | None:
    """Return how a line of a file of the user's begins: with its name where there may be several. None for others."""
    place = Path(path)
    for known in (place, *place.parents):
        if (name := USER_FILES.get(str(known))) is not None:
            return f"{Path(name, place.relative_to(known)).as_posix()}, "
    return "" if "/candidate-" in path and place.suffix == ".py" and place.name != CALL_FILE else None


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
    counted = int(not _repeats_cause(error))
    while (cause := chain[-1].__cause__) is not None and cause not in chain and counted < CAUSES:
        chain.append(cause)
        counted += not _repeats_cause(cause)
    return chain


def _repeats_cause(error: BaseException) -> bool:
    """Return whether this says nothing beyond its cause: Triton's interpreter raises one for each function passed."""
    return type(error).__name__ == "InterpreterError" and error.__cause__ is not None


def _shorten(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST // 2]}\n[...]\n{text[-LONGEST // 2 :]}"
