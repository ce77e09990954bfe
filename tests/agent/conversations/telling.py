"""What a scripted model says: analyses and calls of tools, each as one step of the server's script."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from kernelwright.agent.program.answers import fields

from ...openai_server import JSON, Text, Tools

READY = Text("ready")
"""The answer to the check before the run."""


def analysis(category: str, evidence: Sequence[str], *suggestions: tuple[str, str, str, float]) -> Text:
    """An analysis: each suggestion is technique, place, reason, expected gain."""
    ideas = [
        {"technique": technique, "where": where, "why": why, "expected_gain": gain}
        for technique, where, why, gain in suggestions
    ]
    return Text(
        f"[[ ## category ## ]]\n{category}\n\n[[ ## evidence ## ]]\n{json.dumps(list(evidence))}\n\n"
        f"[[ ## suggestions ## ]]\n{json.dumps(ideas)}\n\n[[ ## completed ## ]]"
    )


def submit(source: str, strategy: str, rationale: str) -> Tools:
    """The kernel that ends an attempt."""
    return Tools([("submit", {"kernel": fenced(source), "strategy": strategy, "rationale": rationale})])


def use(tool: str, **arguments: Any) -> Tools:
    """One call of a tool."""
    return Tools([(tool, arguments)])


def submit_tuned(source: str, strategy: str, rationale: str) -> Callable[[JSON], Tools]:
    """The kernel with the constants that the tool `tune` found, read from its answer."""

    def step(body: JSON) -> Tools:
        answer = next(m for m in reversed(body["messages"]) if m["role"] == "tool")
        config = json.loads(fields(answer["content"])["config"])
        return submit(with_constants(source, config), strategy, rationale)

    return step


def with_constants(source: str, values: dict[str, Any]) -> str:
    """The source with these module constants set."""
    for name, value in values.items():
        source, count = re.subn(rf"^{name} = .*$", f"{name} = {value!r}", source, flags=re.MULTILINE)
        assert count == 1, name
    return source


def changed(source: str, *changes: tuple[str, str]) -> str:
    """The source with each text replaced; a text that is not there once is the script's mistake."""
    for before, after in changes:
        assert source.count(before) == 1, before
        source = source.replace(before, after)
    return source


def fenced(source: str) -> str:
    return f"```python\n{source}\n```"
