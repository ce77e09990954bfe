"""Replies as models write them: what is taken for the kernel, and what is refused, and how."""

from __future__ import annotations

import contextlib
import json
import re
import textwrap

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernelwright.agent.program.reply import kernel_of, source_of
from kernelwright.agent.proposer import NoKernelError
from kernelwright.core import PythonKernel, TorchProblem

from ...conftest import SCALE_KERNEL, SCALE_PROBLEM

PROBLEM = TorchProblem("level1/1_999", "999_Scale", SCALE_PROBLEM)
BEFORE = PythonKernel.parse(SCALE_KERNEL)
# A kernel whose docstring shows code in fences.
SHOWN = SCALE_KERNEL.replace(
    '"""Each row times a vector."""',
    '"""Each row times a vector.\n\n```python\nModelNew(8)\n```\nand\n```\ny\n```\n"""',
)


def taken(text: str) -> str:
    return kernel_of(text, PROBLEM, BEFORE.language, BEFORE.target).source


def refusal(text: str, problem: TorchProblem = PROBLEM, before: PythonKernel = BEFORE) -> str:
    with pytest.raises(NoKernelError) as caught:
        kernel_of(text, problem, before.language, before.target)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        SCALE_KERNEL,
        f"\n\n{SCALE_KERNEL}\n\n",
        f"```python\n{SCALE_KERNEL}```",
        f"```py\n{SCALE_KERNEL}```",
        f"```Python\n{SCALE_KERNEL}```",
        f"```\n{SCALE_KERNEL}```",
        f"``` python  \n{SCALE_KERNEL}``` \nThat is all.",
        f"````python\n{SCALE_KERNEL}````",
        f"I swapped the loops.\n\n```python\n{SCALE_KERNEL}```\n\nIt is faster since rows are contiguous.",
        f"Here is the kernel:\n\n{SCALE_KERNEL}\nIt is faster since rows are contiguous.\n",
        f"from what I see, rows matter.\n# Plan\nTile them.\n{SCALE_KERNEL}",
        f"Run it so:\n```python\nmodel = ModelNew(8)\n```\nwith\n```python\n{SCALE_KERNEL}```\n```bash\nmake\n```",
        f"```text\nplan\n```\n```python\n{SCALE_KERNEL}",
        f"```python\n{SCALE_KERNEL}```\nOnce more, the same:\n```python\n{SCALE_KERNEL}```",
        textwrap.indent(f"```python\n{SCALE_KERNEL}```", "  "),
        json.dumps(SCALE_KERNEL),
        json.dumps(SCALE_KERNEL)[1:-1],
        json.dumps(f"```python\n{SCALE_KERNEL}```")[1:-1],
        f"```python\n{SCALE_KERNEL}```".replace("\n", "\r\n"),
        f"```python\n{SCALE_KERNEL}".replace("\n", "\r"),
    ],
)
def test_the_kernel_is_found(text: str) -> None:
    assert taken(text) == SCALE_KERNEL


@pytest.mark.parametrize(
    "wrapped", ["{}", "```python\n{}```", "Look:\n```python\n{}```\nand\n```python\nModelNew(9)\n```"]
)
def test_fences_in_a_docstring_end_no_block(wrapped: str) -> None:
    assert taken(wrapped.format(SHOWN)) == SHOWN


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "the reply contains no kernel; send the whole file, with class ModelNew, in one ```python block"),
        ("It is as fast as it can be.", "the reply contains no kernel"),
        ("Only ModelNew.forward changes.", "the reply contains no kernel"),
        ("```python\nBLOCK = 16\n```", "the reply contains code, but no class ModelNew; send the whole file"),
        (f"```python\n{SCALE_KERNEL}```\n```python\n{SHOWN}```", "the reply contains 2 kernels and does not say which"),
        (f"```python\n{SCALE_KERNEL[:-40]}", "the reply ends in the middle of its code; send the whole file"),
        ("```python\nimport torch\n", "the reply ends in the middle of its code"),
        (f"```text\nplan\n```\n```python\n{SCALE_KERNEL[:-40]}", "the reply ends in the middle of its code"),
        (SCALE_KERNEL.replace("import tilelang.cpu.language as T\n", "").replace("import tilelang\n", ""), "imports"),
        (f"```python\n{SCALE_KERNEL}\0\n```", "the reply is not valid Python"),
        ("```python\nclass ModelNew:\n    x = " + "(" * 500 + "\n```", "the reply is not valid Python: line 2:"),
    ],
)
def test_what_holds_no_kernel_is_refused(text: str, reason: str) -> None:
    assert reason in refusal(text)


def test_a_kernel_in_two_parts_is_refused() -> None:
    head, tail = SCALE_KERNEL.split("class ModelNew")
    text = f"First:\n```python\n{head}```\nthen:\n```python\nclass ModelNew{tail}```"
    assert "imports neither tilelang nor triton" in refusal(text)


def test_a_character_that_ends_no_line_moves_no_place() -> None:
    shifted = SCALE_KERNEL.replace("Each row", "Each\v row", 1)
    assert taken(f"Here it is.\n{shifted}Prose follows\n") == shifted
    broken = shifted.replace("def forward(self", "def forward((self", 1)
    assert re.search(r"line \d+: .* \(def forward\(\(self", refusal(f"```python\n{broken}```"))


def test_a_file_may_begin_with_anything() -> None:
    text = f"EPSILON = 1e-5\n{SCALE_KERNEL}"
    assert taken(text) == text


@pytest.mark.parametrize("wrapped", ["{}", "```python\n{}```", "So:\n\n{}\n"])
def test_a_syntax_error_is_reported_with_its_line(wrapped: str) -> None:
    broken = SCALE_KERNEL.replace("return build(*x.shape)(x, self.weight)", "return build(*x.shape(x, self.weight)")
    said = refusal(wrapped.format(broken))
    assert "line 33: '(' was never closed (return build(*x.shape(x, self.weight))" in said


@pytest.mark.parametrize("tail", ["x = (", "def helper(:", "@nothing(", "class Other(", "helper(1,"])
def test_code_with_a_mistake_is_not_dropped_as_prose(tail: str) -> None:
    assert "line 35: " in refusal(f"{SCALE_KERNEL}\n{tail}")


def test_prose_in_the_middle_is_reported_as_such() -> None:
    text = SCALE_KERNEL.replace("class ModelNew", "Now the module itself:\n\nclass ModelNew")
    assert "line 27: invalid syntax (Now the module itself:)" in refusal(text)


@pytest.mark.parametrize(
    ("imports", "reason"),
    [
        (("import tilelang.cpu.language as T", "import tilelang.language as T"), "is a tilelang kernel for cuda"),
        (("import tilelang\nimport tilelang.cpu.language as T", "import triton"), "is a triton kernel for cuda"),
    ],
)
def test_another_language_is_refused(imports: tuple[str, str], reason: str) -> None:
    said = refusal(SCALE_KERNEL.replace(*imports))
    assert reason in said
    assert "the one to improve is tilelang for cpu; stay with that" in said


def test_a_kernel_for_another_problem_is_refused() -> None:
    named = SCALE_KERNEL.replace('"""Each row', '"""Problem Name: 23_Softmax\n\nEach row')
    assert refusal(named) == "the reply is a kernel for 23_Softmax; the problem here is 999_Scale"
    assert taken(named.replace("23_Softmax", "999_Scale")) == named.replace("23_Softmax", "999_Scale")
    said = refusal(SCALE_KERNEL.replace("def forward(self, x):", "def forward(self, x, mask):"))
    assert "ModelNew.forward takes (x, mask) and the problem's Model.forward (x)" in said
    said = refusal(SCALE_KERNEL.replace("def __init__(self, features):", "def __init__(self):"))
    assert "ModelNew.__init__ takes () and the problem's Model.__init__ (features)" in said


@pytest.mark.parametrize("signature", ["self, x, scale=1.0", "self, *inputs", "self, tensor", "self, x, /, *, eps=1"])
def test_a_signature_that_fits_the_call_is_taken(signature: str) -> None:
    changed = SCALE_KERNEL.replace("def forward(self, x):", f"def forward({signature}):")
    assert taken(changed) == changed


WORDS = st.text(st.sampled_from("abcdefgh ,.;:'\"!?()[]{}0123456789*`_-"), min_size=3, max_size=60)
PROSE = (
    st.lists(WORDS.map(lambda text: f"So {text} then."), max_size=4)
    .map("\n".join)
    .filter(lambda text: "```" not in text)
)
FENCES = st.tuples(
    st.sampled_from(["```", "````", "`````"]), st.sampled_from(["python", "py", "Python", "", " python3"])
)


@settings(max_examples=60, deadline=None)
@given(before=PROSE, after=PROSE, fence=FENCES, kernel=st.sampled_from([SCALE_KERNEL, SHOWN]), ends=st.booleans())
def test_a_kernel_in_fences_comes_back_unchanged(
    before: str, after: str, fence: tuple[str, str], kernel: str, ends: bool
) -> None:
    text = f"{before}\n{fence[0]}{fence[1]}\n{kernel}{fence[0]}\n{after}"
    assert source_of(text.replace("\n", "\r\n") if ends else text) == kernel


@settings(max_examples=60, deadline=None)
@given(before=PROSE, after=PROSE)
def test_a_kernel_among_prose_comes_back_unchanged(before: str, after: str) -> None:
    assert source_of(f"{before}\n\n{SCALE_KERNEL}\n{after}") == SCALE_KERNEL


@settings(max_examples=200, deadline=None)
@given(text=st.text(st.sampled_from("`\n abcpythonclass ModelNew(:\"'\\#\0import torch"), max_size=200))
def test_no_text_breaks_the_reader(text: str) -> None:
    with contextlib.suppress(NoKernelError):
        assert "class ModelNew" in source_of(text)
