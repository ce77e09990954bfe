"""What of a model's output is taken for a submission, and how requests are put into words."""

from __future__ import annotations

import json
from typing import Any

import dspy
import pytest
from kernelwright.agent.program.adapter import KernelAdapter, _submitted

from ...conftest import SCALE_KERNEL

FENCED = f"```python\n{SCALE_KERNEL}```"


def submission(output: Any) -> dict[str, str]:
    found = _submitted(output)
    assert found["text"] is None
    (call,) = found["tool_calls"]
    assert (call["function"]["name"], call["type"]) == ("submit", "function")
    arguments: dict[str, str] = json.loads(call["function"]["arguments"])
    return arguments


@pytest.mark.parametrize("output", [FENCED, {"text": FENCED}, {"text": FENCED, "tool_calls": []}])
def test_a_kernel_alone_is_a_submission(output: Any) -> None:
    assert submission(output) == {"kernel": SCALE_KERNEL, "strategy": "rewrite", "rationale": ""}


def test_words_beside_it_are_its_strategy_and_rationale() -> None:
    text = f"[[ ## strategy ## ]]\ntiles\n\n[[ ## kernel ## ]]\n{FENCED}\n[[ ## rationale ## ]]\nFewer\nmisses.\n"
    assert submission(text) == {"kernel": SCALE_KERNEL, "strategy": "tiles", "rationale": "Fewer misses."}


@pytest.mark.parametrize(
    "output",
    [
        None,
        "",
        "It cannot be faster.",
        "```python\nBLOCK = 1\n```",
        {"text": None, "tool_calls": None},
        # A draft beside calls of tools is no submission yet.
        {"text": FENCED, "tool_calls": [{"id": "1", "function": {"name": "profile", "arguments": "{}"}}]},
        f'[[ ## next_thought ## ]]\n{FENCED}\n[[ ## tool_calls ## ]]\n{{"tool_calls": []}}',
    ],
)
def test_anything_else_is_left_as_it_is(output: Any) -> None:
    assert _submitted(output) is output


def test_instructions_stand_as_they_are_and_no_field_of_the_agents_own_is_shown() -> None:
    signature = dspy.Signature(
        {
            "source": (str | None, dspy.InputField(desc="the kernel")),
            "history": (dspy.History, dspy.InputField()),
            "answer": (str, dspy.OutputField(desc="what comes out")),
        },
        "Make it fast.\n\n```python\nx = 1\n```",
    )
    text = KernelAdapter(native=True).format_system_message(signature)
    assert text.endswith("your objective is:\n\nMake it fast.\n\n```python\nx = 1\n```")
    assert "1. `source` (str): the kernel\n" in text
    assert "history" not in text
    assert "None" not in text
