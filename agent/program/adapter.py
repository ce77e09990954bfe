"""Formats requests and parses replies."""

from __future__ import annotations

import json
import re
from typing import Any, get_args

import dspy
from dspy.adapters.types.tool import ToolCalls
from pydantic import BaseModel

from ...core.quotation import NOTICE
from ...core.text import BAD_DATA
from ..proposer import NoKernelError
from .reply import source_of

TOOL_CALLS = "tool_calls"
TOOLS = "tools"
UNNAMED = ""
"""The strategy of a kernel that came without one: it is named after its suggestion."""
# A text field that may accompany a kernel, in DSPy's notation, up to the next field or block.
_FIELD = re.compile(r"^\[\[ ## (strategy|rationale) ## \]\]\n?(.*?)(?=^\[\[ ## |^[ \t]*```|\Z)", re.M | re.S)
# A reply that is one block.
_JSON_ALONE = re.compile(r"```(?:json)?\s*\n(.*)\n```", re.S)
# The same in a line of prose: 'Strategy: split-K', '**Rationale:** ...'.
_LINE = re.compile(r"^\W*(strategy|rationale)\W*:\W*(\S.*)$", re.M | re.I)


class KernelAdapter(dspy.ChatAdapter):
    """DSPy's chat format, with bare kernels as replies, and native tool calls if the model has them.

    A kernel without DSPy's fields counts as submitted: a request for the same kernel in another form would cost an
    exchange and bring nothing.
    """

    def __init__(self, native: bool) -> None:
        super().__init__(use_native_function_calling=native, use_json_adapter_fallback=False)

    def format_system_message(self, signature: type[dspy.Signature]) -> str:
        """Return each field once, with its form, and the instructions.

        DSPy's text has a template of every field besides its description, its agent's field for the history, and JSON
        schemas.
        """
        return f"{self.format_field_description(signature)}\n\n{self.format_task_description(signature)}"

    def format_field_description(self, signature: type[dspy.Signature]) -> str:
        """Return the fields of a request and of its reply, a line each."""
        given = {name: field for name, field in signature.input_fields.items() if field.annotation is not dspy.History}
        lines = ["A request has these fields, each below its line:", *_field_lines(given), "", NOTICE]
        lines += ["", "A reply has these, in the same form, and ends with `[[ ## completed ## ]]`:"]
        return "\n".join([*lines, *_field_lines(signature.output_fields)])

    def format_task_description(self, signature: type[dspy.Signature]) -> str:
        """Return the instructions unchanged; DSPy would indent them."""
        return str(signature.instructions)

    def format_user_message_content(
        self,
        signature: type[dspy.Signature],
        inputs: dict[str, Any],
        prefix: str = "",
        suffix: str = "",
        main_request: bool = False,
    ) -> str:
        """Return the fields and their values, with tools as signatures instead of DSPy's JSON schemas."""
        if isinstance(tools := inputs.get(TOOLS), list):
            inputs = {**inputs, TOOLS: "\n".join(map(tool_line, tools))}
        text: str = super().format_user_message_content(signature, inputs, prefix, suffix, main_request)
        return text

    def user_message_output_requirements(self, signature: type[dspy.Signature]) -> str:
        """Return the expected form of a reply. DSPy asks for valid Python although it reads JSON."""
        first, *_ = signature.output_fields
        return f"Reply in the form given above, from `[[ ## {first} ## ]]` to `[[ ## completed ## ]]`."

    def _call_postprocess(
        self, processed_signature: Any, original_signature: Any, outputs: list[Any], lm: Any, lm_kwargs: Any
    ) -> list[dict[str, Any]]:
        if TOOL_CALLS in original_signature.output_fields:
            outputs = [_submitted(output) for output in outputs]
        found: list[dict[str, Any]] = super()._call_postprocess(
            processed_signature, original_signature, outputs, lm, lm_kwargs
        )
        return found


def _field_lines(fields: dict[str, Any]) -> list[str]:
    lines = []
    for name, field in fields.items():
        extra = field.json_schema_extra or {}
        described = extra.get("desc", "")
        # DSPy describes a field without words as '${name}'.
        parts = ["" if described == f"${{{name}}}" else described]
        parts += [_form(field.annotation)] if extra.get("__dspy_field_type") == "output" else []
        text = "; ".join(part for part in parts if part)
        lines.append(f"- `[[ ## {name} ## ]]`" + (f": {text}" if text else ""))
    return lines


def _form(annotation: Any) -> str:
    """Describe the JSON of a reply's field; empty for text."""
    if annotation is ToolCalls:
        return 'as JSON: {"tool_calls": [{"name": "...", "args": {...}}]}'
    item, *_ = get_args(annotation) or (None,)
    if isinstance(item, type) and issubclass(item, BaseModel):
        keys = ", ".join(f'"{name}": {field.description}' for name, field in item.model_fields.items())
        return f"as a JSON list of {{{keys}}}"
    return "as a JSON list of texts" if annotation == list[str] else ""


def tool_line(tool: dspy.Tool) -> str:
    """Return a tool's name, arguments and description: `- tune(kernel: string, trials: integer = 30): Search ...`."""
    arguments = []
    for name, schema in (tool.args or {}).items():
        default = f" = {json.dumps(schema['default'])}" if "default" in schema else ""
        arguments.append(f"{name}: {_type(schema)}{default}")
    return f"- {tool.name}({', '.join(arguments)}): {tool.desc}"


def _type(schema: dict[str, Any]) -> str:
    """Describe a JSON schema in a few words."""
    if "enum" in schema:
        return " | ".join(map(json.dumps, schema["enum"]))
    if "anyOf" in schema:
        return " | ".join(map(_type, schema["anyOf"]))
    if schema.get("type") == "array":
        return f"[{_type(schema['items'])}, ...]"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"{{name: {_type(schema['additionalProperties'])}}}"
    bounds = [str(schema[name]) for name in ("minimum", "maximum") if name in schema]
    text = str(schema.get("type", "any")) + (f" {' to '.join(bounds)}" if bounds else "")
    return f"{text} ({schema['description']})" if "description" in schema else text


def _submitted(output: Any) -> Any:
    """Return the output as a call of submit if it is a kernel and not a tool call."""
    text = output.get("text") if isinstance(output, dict) else output
    if not text or f"[[ ## {TOOL_CALLS}" in text or (isinstance(output, dict) and output.get(TOOL_CALLS)):
        return output
    if calls := _bare_calls(text):
        return {"text": None, TOOL_CALLS: calls}
    prose, fence, _ = text.partition("```")
    told = [*(_LINE.findall(prose) if fence else ()), *_FIELD.findall(text)]
    fields = {name.lower(): " ".join(value.split()) for name, value in told}
    try:
        kernel = source_of(text)
    except NoKernelError:
        return output
    arguments = {
        "kernel": kernel,
        "strategy": fields.get("strategy", UNNAMED),
        "rationale": fields.get("rationale", ""),
    }
    return {"text": None, TOOL_CALLS: [_call(0, "submit", arguments)]}


def _bare_calls(text: str) -> list[dict[str, Any]]:
    """Return the calls of a reply that is their JSON alone, in a block or not: the line of the field is missing.

    An object with the arguments of `submit` is a call of it. Empty for any other text.
    """
    found = _JSON_ALONE.fullmatch(text.strip())
    try:
        told = json.loads(found[1] if found else text)
    except BAD_DATA:
        return []
    if isinstance(told, dict) and isinstance(told.get("kernel"), str):
        return [_call(0, "submit", {"strategy": UNNAMED, "rationale": "", **told})]
    listed = told.get(TOOL_CALLS) if isinstance(told, dict) else told
    calls = []
    for number, item in enumerate(listed if isinstance(listed, list) else ()):
        call = item.get("function", item) if isinstance(item, dict) else None
        if not isinstance(call, dict) or not isinstance(call.get("name"), str):
            return []
        calls.append(_call(number, call["name"], call.get("args", call.get("arguments", {}))))
    return calls


def _call(number: int, name: str, arguments: Any) -> dict[str, Any]:
    """Return a call as models with native tools make it; `arguments` is an object, or its JSON."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"id": f"bare{number or ''}", "type": "function", "function": {"name": name, "arguments": text}}
