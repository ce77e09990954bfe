"""The program: its texts, and better ones that were saved."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from kernelwright.agent.program.proposer import ModelProposer
from kernelwright.agent.program.signatures import KernelProgram, read_program, save_program
from kernelwright.core import ModelError, Target
from kernelwright.core.languages import TILELANG, TRITON
from kernelwright.prompts import render

from ..conversations.telling import analysis, submit
from .stand import requests, source, stand, textual

CPU = (TILELANG, Target.CPU)
ABOUT = {"language": "tilelang", "target": "cpu"}


def saved(path: Path, text: str = "Be bold.") -> Path:
    """A program whose every instruction begins with a text of its own."""
    program = KernelProgram(*CPU)
    for name, predictor in program.named_predictors():
        predictor.signature = predictor.signature.with_instructions(f"{text} This is {name}.")
    return save_program(program, path / "program.json", **ABOUT, score=1.5)


def test_instructions_are_the_templates_for_the_language() -> None:
    program = KernelProgram(TRITON, Target.CUDA)
    assert program.analyse.signature.instructions == render("analyse", language="triton")
    contract = render("contract", language="triton", imports="import triton\nimport triton.language as tl")
    for agent, name in ((program.rewrite, "rewrite"), (program.repair, "repair")):
        assert agent.react.signature.instructions.startswith(render(name, language="triton", contract=contract))
    assert [name for name, _ in program.named_predictors()] == ["analyse", "rewrite.react", "repair.react"]


def test_what_is_to_be_submitted_is_described_to_the_model() -> None:
    agent = KernelProgram(*CPU).rewrite
    described = {name: schema["description"] for name, schema in agent.tools["submit"].args.items()}
    assert described["kernel"] == "the whole file in one ```python block"
    assert set(described) == {"kernel", "strategy", "rationale"}


def test_saved_instructions_are_read_and_used(tmp_path: Path) -> None:
    state = read_program(saved(tmp_path), *CPU)
    here = stand(tmp_path)
    models = textual(
        tmp_path, [analysis("memory", ["e"]), submit(source(5.0), "s", "r"), submit(source(4.0), "s", "r")]
    )
    proposer = ModelProposer(models, here.heard, state=state)
    proposer.analyse(here.context)
    attempt = proposer.propose(here.context)
    assert attempt.strategy == "s"
    systems = [sent["system"] for sent in requests(models)]
    assert [system.splitlines()[-1] for system in systems] == [
        "Be bold. This is analyse.",
        "Be bold. This is rewrite.react.",
    ]


def test_a_program_reports_what_is_known_of_it(tmp_path: Path) -> None:
    content = json.loads(saved(tmp_path).read_text())
    assert (content["language"], content["target"], content["score"]) == ("tilelang", "cpu", 1.5)
    assert content["kernelwright_program"] == 1


@pytest.mark.parametrize(
    "change",
    [
        lambda signature: signature.update(instructions=3),
        lambda signature: signature.update(instructions=None),
        lambda signature: signature.update(fields=[]),
        lambda signature: signature["fields"].pop(),
        lambda signature: signature["fields"].reverse(),
    ],
)
def test_a_program_of_another_version_is_refused(tmp_path: Path, change: Any) -> None:
    path = saved(tmp_path)
    content = json.loads(path.read_text())
    change(content["state"]["repair.react"]["signature"])
    path.write_text(json.dumps(content))
    with pytest.raises(ModelError, match=r"its repair\.react does not fit this version of kernelwright"):
        read_program(path, *CPU)


def test_a_program_for_another_language_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError) as caught:
        read_program(saved(tmp_path), TRITON, Target.CUDA)
    assert str(caught.value).endswith(
        "program.json is for tilelang on cpu, and this kernel is triton on cuda; compile one for it"
    )


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "3",
        "null",
        "{}",
        json.dumps(ABOUT),
        json.dumps({**ABOUT, "state": None}),
        json.dumps({**ABOUT, "state": []}),
        json.dumps({**ABOUT, "state": {}}),
        json.dumps({**ABOUT, "state": {"analyse": 3}}),
        json.dumps({**ABOUT, "state": {"analyse": {"signature": {"instructions": "x", "fields": [3]}}}}),
        json.dumps({**ABOUT, "state": {"analyse": {}, "rewrite.react": {}, "repair.react": {}}}),
        json.dumps({"state": {}}),
        b"\xff\xfe",
    ],
)
def test_a_file_that_is_no_program_is_refused_in_a_line(tmp_path: Path, content: Any) -> None:
    path = tmp_path / "program.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ModelError) as caught:
        read_program(path, *CPU)
    message = str(caught.value)
    assert "is not a `program`" in message and str(path) in message
    assert message.endswith("; give a file that 'kernelwright agent compile' wrote")
    assert "\n" not in message


@pytest.mark.parametrize("name", ["nothing.json", "."])
def test_a_missing_file_is_reported_in_a_line(tmp_path: Path, name: str) -> None:
    with pytest.raises(ModelError, match=r"cannot read .*: (No such file or directory|Is a directory); give") as caught:
        read_program(tmp_path / name, *CPU)
    assert "\n" not in str(caught.value)


def test_a_saved_program_is_the_same_again(tmp_path: Path) -> None:
    state = read_program(saved(tmp_path), *CPU)
    program = KernelProgram(*CPU)
    program.load_state(state)
    again = read_program(save_program(program, tmp_path / "again.json", **ABOUT), *CPU)
    assert again == state
