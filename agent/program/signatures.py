"""The DSPy program: analyse a kernel, rewrite it with tools, and repair failures."""

from __future__ import annotations

import copy
import functools
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import dspy
from pydantic import BaseModel, BeforeValidator, Field

from ...core import Language, ModelError, Target
from ...core.files import read_text, write_whole
from ...core.text import BAD_DATA, data_problem
from ...prompts import render
from .toolbox import Toolbox

ROUNDS = 16
"""Replies in one attempt before the model must submit: more than it has tool calls, see `toolbox.CALLS`."""

# Inputs of several signatures, in the same words.
_REFERENCE = "the problem: the PyTorch model whose results are correct"
_WORKLOAD = "the sizes at which the kernel is checked and timed, and the tolerance"
_DEVICE = "the device, its limits, its ceilings by precision, versions"
_MEASURED = "the work, the floor under its time, and what was measured of the kernel"
_PAST = "what was tried, in which lane, from which kernel, and what came of it"
_GUIDE = "titles of the sections that read_guide shows"
_KERNEL = "the whole file in one ```python block"
_STRATEGY = "the change in one to four words"

_TOOLS = "Call tools where you need them; `submit` hands in kernel, strategy and rationale, and ends the turn."
"""In place of DSPy's text, which lists all fields and tools again."""


def _factor(value: object) -> object:
    """Parse a factor; models write '2x', 'about 1.3' and '20%', too."""
    if not isinstance(value, str):
        return value
    number = re.search(r"\d+(?:\.\d+)?", value)
    if number is None:
        return None
    return 1 + float(number[0]) / 100 if value[number.end() :].lstrip().startswith("%") else float(number[0])


class Suggestion(BaseModel):
    """One idea."""

    technique: str = Field(description="its name")
    where: str = Field(description="what it changes")
    why: str = Field(description="how it helps")
    expected_gain: Annotated[float | None, BeforeValidator(_factor)] = Field(description="a factor, as a number")


class AnalyseBottleneck(dspy.Signature):
    """Replaced by prompts/analyse.md."""

    reference: str = dspy.InputField(desc=_REFERENCE)
    workload: str = dspy.InputField(desc=_WORKLOAD)
    source: str = dspy.InputField(desc="the kernel to make faster; it is correct")
    device: str = dspy.InputField(desc=_DEVICE)
    measured: str = dspy.InputField(desc=f"{_MEASURED}, with the bottleneck by the metrics alone")
    past_turns: str = dspy.InputField(desc=_PAST)
    category: str = dspy.OutputField(desc="memory, compute, parallelism or algorithm")
    evidence: list[str] = dspy.OutputField(desc="the metrics that show it")
    suggestions: list[Suggestion] = dspy.OutputField(desc="the ideas worth measuring, best first")


class RewriteKernel(dspy.Signature):
    """Replaced by prompts/rewrite.md."""

    reference: str = dspy.InputField(desc=_REFERENCE)
    workload: str = dspy.InputField(desc=_WORKLOAD)
    source: str = dspy.InputField(desc="the kernel to make faster; it is correct")
    device: str = dspy.InputField(desc=_DEVICE)
    measured: str = dspy.InputField(desc=_MEASURED)
    bottleneck: str = dspy.InputField(desc="what bounds it, and the evidence")
    suggestion: str = dspy.InputField(desc="the idea to carry out")
    examples: str = dspy.InputField(desc="worked optimizations of other kernels, with what they gained")
    guide: str = dspy.InputField(desc=_GUIDE)
    past_turns: str = dspy.InputField(desc=_PAST)
    kernel: str = dspy.OutputField(desc=_KERNEL)
    strategy: str = dspy.OutputField(desc=_STRATEGY)
    rationale: str = dspy.OutputField(desc="one or two sentences: what was changed, and why it is faster")


class RepairKernel(dspy.Signature):
    """Replaced by prompts/repair.md."""

    reference: str = dspy.InputField(desc=_REFERENCE)
    workload: str = dspy.InputField(desc=_WORKLOAD)
    source: str = dspy.InputField(desc="the kernel before the change; it is correct")
    device: str = dspy.InputField(desc=_DEVICE)
    failed: str = dspy.InputField(desc="the changed kernel, which failed")
    failure: str = dspy.InputField(desc="how it failed, and how the attempts before it did")
    suggestion: str = dspy.InputField(desc="the idea that was followed")
    guide: str = dspy.InputField(desc=_GUIDE)
    kernel: str = dspy.OutputField(desc=_KERNEL)
    strategy: str = dspy.OutputField(desc=_STRATEGY)
    rationale: str = dspy.OutputField(desc="one or two sentences: what was wrong, and what was fixed")


class KernelProgram(dspy.Module):
    """The program that GEPA improves and `program` loads: the instructions of three predictors."""

    def __init__(self, language: Language, target: Target, toolbox: Toolbox | None = None) -> None:
        super().__init__()
        analyse, rewrite, repair = _parts(language, target)
        offered = toolbox.tools() if toolbox else []
        self.analyse = dspy.Predict(analyse)
        self.rewrite = _with_tools(rewrite, toolbox, offered)
        self.repair = _with_tools(repair, toolbox, offered)

    def forward(self, **inputs: Any) -> dspy.Prediction:
        """Rewrite; analysis and repair are called separately, with measurements in between."""
        return self.rewrite(**inputs)


@functools.cache
def _parts(language: Language, target: Target) -> tuple[type[dspy.Signature], dspy.ReActV2, dspy.ReActV2]:
    """Return the signature of the analysis, and the agents that rewrite and repair, without tools but `submit`.

    Made once, as DSPy makes a dozen classes for them in 30 ms; their instructions name no tools.
    """
    contract = render("contract", language=language.id, imports=language.dialect(target).imports)
    given = {"language": language.id, "contract": contract}
    return (
        AnalyseBottleneck.with_instructions(render("analyse", language=language.id)),
        _agent(RewriteKernel.with_instructions(render("rewrite", **given))),
        _agent(RepairKernel.with_instructions(render("repair", **given))),
    )


def _agent(signature: type[dspy.Signature]) -> dspy.ReActV2:
    """Return an agent that calls tools until it submits the signature's outputs."""
    agent = dspy.ReActV2(signature, tools=[], max_iters=ROUNDS)
    # DSPy gives the model only the types of the outputs to submit.
    for name, field in agent.signature.output_fields.items():
        agent.tools["submit"].args[name]["description"] = field.json_schema_extra["desc"]
    own = f"{signature.instructions}\n\n{_TOOLS}"
    react = agent.react.signature.with_instructions(own)
    agent.react.signature = react.with_updated_fields("next_thought", desc="what to do next, and why")
    return agent


def _with_tools(agent: dspy.ReActV2, toolbox: Toolbox | None, offered: Sequence[dspy.Tool]) -> dspy.ReActV2:
    """Return a copy of an agent, to which a toolbox's tools are offered before `submit`."""
    agent = copy.deepcopy(agent)
    if toolbox is not None:
        agent.tools = toolbox.answering_all({**{str(tool.name): tool for tool in offered}, **agent.tools})
    return agent


def save_program(program: KernelProgram, path: Path, **about: Any) -> Path:
    """Write the program's state and metadata to a JSON file."""
    content = {"kernelwright_program": 1, **about, "state": program.dump_state()}
    return write_whole(path, json.dumps(content, indent=1, default=str) + "\n", "choose another `output`")


def read_program(path: Path, language: Language, target: Target) -> dict[str, Any]:
    """Return the state of a program with the saved instructions, which are all that compiling changes.

    Raises `ModelError` for another file, another language or other fields.
    """
    state: dict[str, Any] = KernelProgram(language, target).dump_state()
    try:
        content = json.loads(read_text(path))
        written_for = (content["language"], content["target"])
        for name, predictor in state.items():
            _take_instructions(predictor["signature"], content["state"][name]["signature"], name)
    except BAD_DATA as error:
        told = data_problem(path, error, "is not a `program`")
        raise ModelError(told, "give a file that 'kernelwright agent compile' wrote") from None
    if written_for != (language.id, target.value):
        raise ModelError(
            f"`program` {path} is for {written_for[0]} on {written_for[1]}, and this kernel is {language} on {target}; "
            "compile one for it"
        )
    return state


def _take_instructions(signature: dict[str, Any], saved: dict[str, Any], name: str) -> None:
    fields, of_saved = ([field["prefix"] for field in item["fields"]] for item in (signature, saved))
    if not isinstance(saved["instructions"], str) or fields != of_saved:
        raise ValueError(f"its {name} does not fit this version of kernelwright")
    signature["instructions"] = saved["instructions"]
