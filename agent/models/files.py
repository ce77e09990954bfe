"""Replies that a person, or another program, writes into files."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

from dspy import lm15

from ...core.exchange_record import Reply
from .engines import BudgetSpentError, NoReplyError, ReplySource
from .exchange import request_record, response_of
from .prompt_file import prompt_path, reply_name

POLL_S = 0.5


class Files(ReplySource):
    """Writes each prompt into a folder and waits for the reply beside it, until `late` returns a limit.

    `lock` is shared by all lanes that write into the folder.
    """

    supports_function_calling = False

    def __init__(
        self,
        folder: Path,
        lane: str,
        wait: bool,
        tell: Callable[[str], None],
        late: Callable[[], str | None],
        lock: threading.Lock,
    ) -> None:
        self._folder = folder
        self._lane = lane
        self._wait = wait
        self._tell = tell
        self._late = late
        self._lock = lock

    def answer(self, request: lm15.Request) -> tuple[lm15.Response, float]:
        """Write the prompt, wait for its reply file, and return it; a reply costs 0 dollars."""
        with self._lock:
            prompt = prompt_path(self._folder, self._lane, request_record(request))
        reply = prompt.with_name(reply_name(prompt.name))
        text = _written(reply)
        if not text and not self._wait:
            raise NoReplyError(f"{prompt} has no reply yet; write {reply.name} beside it, then run again with `resume`")
        if not text:
            self._tell(f"waiting for {reply} (the answer to {prompt.name})")
        while not text:
            if late := self._late():
                raise BudgetSpentError(late)
            time.sleep(POLL_S)
            text = _written(reply)
        return response_of(Reply(text=text), request.model), 0.0


def _written(path: Path) -> str:
    """Return the text of a file once it is complete; empty while there is none."""
    try:
        before = path.stat()
        # Some editors write a byte order mark; an invalid byte is no reason to wait for ever.
        text = path.read_text("utf-8-sig", errors="replace")
        after = path.stat()
        if after.st_mtime > time.time():  # by a clock that is ahead of this one, which says nothing of its age
            time.sleep(POLL_S)
            settled = _state(before) == _state(path.stat())
        else:
            settled = before.st_size == after.st_size and time.time() - after.st_mtime > POLL_S
    except OSError:
        return ""
    return text.strip() if settled else ""


def _state(file: os.stat_result) -> tuple[int, int]:
    return file.st_size, file.st_mtime_ns
