"""What of a model's output is taken for a submission, and how requests are put into words."""

from __future__ import annotations

import json
from typing import Any

import dspy
import pytest
from dspy.adapters.types.tool import ToolCalls
from kernelwright.agent.program.adapter import KernelAdapter, _submitted, tool_line
from kernelwright.core.quotation import NOTICE
from pydantic import BaseModel, Field

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
    assert submission(output) == {"kernel": SCALE_KERNEL, "strategy": "", "rationale": ""}


def test_words_beside_it_are_its_strategy_and_rationale() -> None:
    text = f"[[ ## strategy ## ]]\ntiles\n\n[[ ## kernel ## ]]\n{FENCED}\n[[ ## rationale ## ]]\nFewer\nmisses.\n"
    assert submission(text) == {"kernel": SCALE_KERNEL, "strategy": "tiles", "rationale": "Fewer misses."}
    prose = f"Strategy: tiles\n\n**Rationale:** Fewer misses.\n\n{FENCED}\nNote: done.\n"
    assert submission(prose) == submission(text)


CALLED = {"name": "read_guide", "args": {"section_title": "Threads"}}
OF_OPENAI = {"type": "function", "function": {"name": "read_guide", "arguments": '{"section_title": "Threads"}'}}


@pytest.mark.parametrize("told", [{"tool_calls": [CALLED]}, [CALLED], {"tool_calls": [OF_OPENAI]}])
@pytest.mark.parametrize("form", ["{}", "```json\n{}\n```", "```\n{}\n```\n"])
def test_the_json_of_calls_alone_is_understood(told: Any, form: str) -> None:
    (call,) = _submitted(form.replace("{}", json.dumps(told, indent=1)))["tool_calls"]
    assert call["function"]["name"] == "read_guide"
    assert json.loads(call["function"]["arguments"]) == {"section_title": "Threads"}


def test_the_json_of_a_kernel_alone_is_a_submission() -> None:
    told = json.dumps({"kernel": SCALE_KERNEL, "strategy": "tiles"})
    assert submission(told) == {"kernel": SCALE_KERNEL, "strategy": "tiles", "rationale": ""}


@pytest.mark.parametrize(
    "output",
    [
        None,
        "[" * 20_000,
        '{"tool_calls": [1]}',
        '{"tool_calls": [{"function": {"name": 1}}]}',
        '{"kernel": 1}',
        "3",
        "",
        "It cannot be faster.",
        "```python\nBLOCK = 1\n```",
        {"text": None, "tool_calls": None},
        # A draft beside calls of tools is not a submission yet.
        {"text": FENCED, "tool_calls": [{"id": "1", "function": {"name": "profile", "arguments": "{}"}}]},
        f'[[ ## next_thought ## ]]\n{FENCED}\n[[ ## tool_calls ## ]]\n{{"tool_calls": []}}',
    ],
)
def test_anything_else_is_left_as_it_is(output: Any) -> None:
    assert _submitted(output) is output


class Idea(BaseModel):
    """One idea."""

    technique: str = Field(description="its name")
    gain: float = Field(description="a factor")


def test_instructions_stand_as_they_are_and_every_field_is_there_once() -> None:
    signature = dspy.Signature(
        {
            "source": (str | None, dspy.InputField(desc="the kernel")),
            "history": (dspy.History, dspy.InputField()),
            "tools": (list[dspy.Tool], dspy.InputField()),
            "answer": (str, dspy.OutputField(desc="what comes out")),
            "reasons": (list[str], dspy.OutputField(desc="why")),
            "ideas": (list[Idea], dspy.OutputField(desc="what next")),
            "tool_calls": (ToolCalls, dspy.OutputField()),
        },
        "Make it fast.\n\n```python\nx = 1\n```",
    )
    assert (
        KernelAdapter(native=True).format_system_message(signature)
        == f"""\
A request has these fields, each below its line:
- `[[ ## source ## ]]`: the kernel
- `[[ ## tools ## ]]`

{NOTICE}

A reply has these, in the same form, and ends with `[[ ## completed ## ]]`:
- `[[ ## answer ## ]]`: what comes out
- `[[ ## reasons ## ]]`: why; as a JSON list of texts
- `[[ ## ideas ## ]]`: what next; as a JSON list of {{"technique": its name, "gain": a factor}}
- `[[ ## tool_calls ## ]]`: as JSON: {{"tool_calls": [{{"name": "...", "args": {{...}}}}]}}

Make it fast.

```python
x = 1
```"""
    )


def test_a_tool_is_described_by_its_signature() -> None:
    schemas = {
        "kernel": {"type": "string", "description": "the file"},
        "trials": {"type": "integer", "minimum": 1, "maximum": 9, "default": 3},
        "space": {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "number"}}},
        "tuner": {"enum": ["grid", "xgboost"], "default": "grid"},
        "limit": {"anyOf": [{"type": "number"}, {"type": "null"}], "default": None},
    }
    tool = dspy.Tool(lambda **_: "", name="tune", desc="Search them.", args=schemas)
    assert tool_line(tool) == (
        "- tune(kernel: string (the file), trials: integer 1 to 9 = 3, space: {name: [number, ...]}, "
        'tuner: "grid" | "xgboost" = "grid", limit: number | null = null): Search them.'
    )
