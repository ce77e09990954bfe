"""The worker that runs IREE's compiler, or another of its tools, on one module, which may come from anyone.

The request compile (command, source: a file that becomes its standard input, stack: bytes that each of its threads may
use, None for this process's own limit) returns {"code": its exit code, negative for a signal, "said": the beginning of
its output}.
"""

from __future__ import annotations

import resource
import subprocess
from pathlib import Path

from ..workers.channel import Channel, Message

LOG_BYTES = 4000
_CHUNK = 1 << 16


def serve(channel: Channel, options: Message) -> None:
    """Compile the module of the one request that comes."""
    request = channel.receive()
    if (stack := request.get("stack")) is not None:
        resource.setrlimit(resource.RLIMIT_STACK, (stack, stack))
    with Path(request["source"]).open("rb") as source:
        process = subprocess.Popen(
            request["command"], stdin=source, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, bufsize=0
        )
    assert process.stderr is not None
    said = b""
    while part := process.stderr.read(_CHUNK):  # all of it, since the compiler would wait for a reader
        said = (said + part)[:LOG_BYTES]
    channel.send({"code": process.wait(), "said": said.decode(errors="replace"), "nonce": request["nonce"]})
