"""A request as a page for a person, who replies or pastes it into a chat window."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from ...core import ModelError
from ...core.files import write_whole
from ...core.text import BAD_DATA
from .exchange import Record

ADVICE = "choose another folder for `model` files:DIR"
HEAD = """\
<!-- Conversation {lane}. Answer it, or paste it into a chat window; save the answer beside this file as {reply}.
     The page holds all of the conversation: a chat that knows it needs only what follows its last answer. -->"""
_KERNEL_OR_TOOLS = """\
To hand in a kernel, answer in this form, the whole file in one ```python block. It is compiled, checked and timed, and
if it fails you are asked for a repair.

[[ ## strategy ## ]]
the change in one to four words

[[ ## rationale ## ]]
one or two sentences: what was changed, and why it is faster

[[ ## kernel ## ]]
```python
...
```

To use a tool first, answer in this form, with the tool's own name and arguments; the next page has its answer:

[[ ## next_thought ## ]]
Which threads the language offers decides how to split the loop.

[[ ## tool_calls ## ]]
{"tool_calls": [{"name": "read_guide", "args": {"section_title": "Threads"}}]}

[[ ## completed ## ]]"""
_ROLES = {"user": "Request", "assistant": "Your answer", "tool": "What the tools said", "developer": "Request"}
_RESULTS = "tool_call_results"
# Fields that DSPy writes into one line of JSON.
_TOLD = re.compile(rf"^(\[\[ ## {_RESULTS} ## \]\]\n)(\{{.*)$", re.MULTILINE)


def open_folder(folder: Path) -> list[Path]:
    """Return the prompts in a folder, which is created if necessary. Raises `ModelError` when that fails."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return sorted(folder.glob("[0-9]*.prompt.md"))
    except OSError as error:
        raise ModelError(f"cannot use {folder}: {error.strerror}; {ADVICE}") from None


def prompt_path(folder: Path, lane: str, request: Record) -> Path:
    """Return the file of this request, `0001.prompt.md` and so on; it is written if it does not exist.

    A request that is in the folder already keeps its number, so that a resumed run finds its reply.
    """
    present = open_folder(folder)
    for path in present:
        if path.read_bytes() == _page(lane, request, path.name):
            return path
    number = max((int(path.name.partition(".")[0]) for path in present), default=0) + 1
    path = folder / f"{number:04d}.prompt.md"
    return write_whole(path, _page(lane, request, path.name), ADVICE)


def reply_name(prompt: str) -> str:
    """Return '0001.reply.md' for '0001.prompt.md'."""
    return prompt.removesuffix(".prompt.md") + ".reply.md"


def _page(lane: str, request: Record, name: str) -> bytes:
    system = request["system"] or ""
    parts = [HEAD.format(lane=lane, reply=reply_name(name))]
    if system:
        parts += [_title("Instructions"), system]
    for message in request["messages"]:
        text = message.get("text") or ""
        told = text.startswith(f"[[ ## {_RESULTS}")
        parts.append(_title(_ROLES["tool"] if told else _ROLES.get(message["role"], message["role"])))
        if text:
            parts.append(_TOLD.sub(lambda found: found[1] + _readable(found[2]), text))
        parts += [_call_text(call) for call in message.get("tool_calls", ())]
        parts += [_result_text(result["name"], result["text"]) for result in message.get("tool_results", ())]
    takes_kernels = "[[ ## tool_calls ## ]]" in system
    parts += [_title("How to answer"), _KERNEL_OR_TOOLS] if takes_kernels else []
    return "\n\n".join(part.strip("\n") for part in parts).encode("utf-8", "replace") + b"\n"


def _title(text: str) -> str:
    return f"---\n\n# {text}"


def _call_text(call: Record) -> str:
    return f"{call['name']}({json.dumps(call['arguments'], ensure_ascii=False)})"


def _readable(line: str) -> str:
    """Format the results of tools one by one, with real line ends."""
    try:
        found: Any = json.loads(line)
        return "\n\n".join(_result_text(result["name"], str(result["value"])) for result in found[_RESULTS])
    except BAD_DATA:
        return line


def _result_text(name: str, text: str) -> str:
    """Format a tool's result, which is JSON."""
    try:
        result: Any = json.loads(text)
    except BAD_DATA:
        result = text
    if isinstance(result, dict):
        values = {key: value if isinstance(value, str) else json.dumps(value) for key, value in result.items()}
        text = "\n\n".join(f"{key}: {value}" for key, value in values.items())
    return f"{name} said:\n\n{text}"
