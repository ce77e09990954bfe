"""Formats requests and parses replies."""

from __future__ import annotations

import json
import re
from copy import copy
from typing import Any

import dspy

from ..proposer import NoKernel
from .reply import source_of

TOOL_CALLS = "tool_calls"
UNNAMED = "rewrite"
"""The strategy of a kernel that came without one."""
# A text field that may accompany a kernel, in DSPy's notation, up to the next field or block.
_FIELD = re.compile(r"^\[\[ ## (strategy|rationale) ## \]\]\n?(.*?)(?=^\[\[ ## |^[ \t]*```|\Z)", re.M | re.S)


class KernelAdapter(dspy.ChatAdapter):
    """DSPy's chat format, with bare kernels as replies, and native tool calls if the model has them.

    A kernel without DSPy's fields counts as submitted: a request for the same kernel in another form would cost an
    exchange and bring nothing.
    """

    def __init__(self, native: bool) -> None:
        super().__init__(use_native_function_calling=native, use_json_adapter_fallback=False)

    def format_system_message(self, signature: type[dspy.Signature]) -> str:
        """Return DSPy's text without its agent's additions: a field for the history, and None as a type."""
        # One new signature for all fields: DSPy's methods would copy every field for each that changes.
        fields = {name: copy(field) for name, field in signature.fields.items()}
        for name in signature.input_fields:
            if fields[name].annotation is dspy.History:
                del fields[name]
            elif fields[name].annotation == str | None:
                fields[name].annotation = str
        text: str = super().format_system_message(dspy.Signature(fields, signature.instructions))
        return text

    def format_task_description(self, signature: type[dspy.Signature]) -> str:
        """Return the instructions unchanged; DSPy would indent them."""
        return f"In adhering to this structure, your objective is:\n\n{signature.instructions}"

    def user_message_output_requirements(self, signature: type[dspy.Signature]) -> str:
        """Return the expected form of a reply; DSPy asks for valid Python where it reads JSON."""
        fields = ", then ".join(f"`[[ ## {name} ## ]]`" for name in signature.output_fields)
        return (
            f"Respond with {fields}, each below its line, lists and objects as JSON; end with `[[ ## completed ## ]]`."
        )

    def _call_postprocess(
        self, processed_signature: Any, original_signature: Any, outputs: list[Any], lm: Any, lm_kwargs: Any
    ) -> list[dict[str, Any]]:
        if TOOL_CALLS in original_signature.output_fields:
            outputs = [_submitted(output) for output in outputs]
        found: list[dict[str, Any]] = super()._call_postprocess(
            processed_signature, original_signature, outputs, lm, lm_kwargs
        )
        return found


def _submitted(output: Any) -> Any:
    """Return the output as a call of submit, where it is a kernel and not a tool call."""
    text = output.get("text") if isinstance(output, dict) else output
    if not text or f"[[ ## {TOOL_CALLS}" in text or (isinstance(output, dict) and output.get(TOOL_CALLS)):
        return output
    fields = {name: " ".join(value.split()) for name, value in _FIELD.findall(text)}
    try:
        kernel = source_of(text)
    except NoKernel:
        return output
    arguments = {
        "kernel": kernel,
        "strategy": fields.get("strategy", UNNAMED),
        "rationale": fields.get("rationale", ""),
    }
    submit = {"name": "submit", "arguments": json.dumps(arguments)}
    return {"text": None, TOOL_CALLS: [{"id": "bare", "type": "function", "function": submit}]}
