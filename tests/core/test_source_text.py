"""Lines are counted as Python's tokenizer counts them, whatever else a text may hold."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernelwright.core import PythonKernel
from kernelwright.core.source_text import source_lines, without_separators

ENDS_NO_LINE = ["\f", "\v", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"]


@given(st.text(st.sampled_from(["a", " ", "\n", "\r", *ENDS_NO_LINE])))
def test_lines_join_to_the_text_and_end_where_python_ends_them(text: str) -> None:
    lines = source_lines(text, keepends=True)
    assert "".join(lines) == text
    assert [line.rstrip("\r\n") for line in lines] == source_lines(text)
    # Inside a string literal everything may stand, so the tree tells how many lines Python saw.
    tree = ast.parse(f"'''{text}'''\nlast = 1")
    assert tree.body[1].lineno == len(source_lines(f"'''{text}'''\nlast = 1"))


@pytest.mark.parametrize("character", ENDS_NO_LINE)
def test_a_character_that_ends_no_line_does_not_move_a_constant(character: str) -> None:
    source = f'import triton\nNAME = "x{character}y"\nBLOCK_M = 64\n\n\nclass ModelNew: ...\n'
    bound = PythonKernel.parse(source).bind({"BLOCK_M": 128})
    assert bound.source == source.replace("BLOCK_M = 64", "BLOCK_M = 128")


def test_a_form_feed_between_sections_stays_where_it_is() -> None:
    source = "import triton\n\fBLOCK_M = 64\nclass ModelNew: ...\n"
    assert PythonKernel.parse(source).bind({"BLOCK_M": 128}).source == source.replace("64", "128")


@pytest.mark.parametrize("end", ["\r\n", "\r"])
def test_other_line_ends_are_kept(end: str) -> None:
    source = f"import triton{end}BLOCK_M = 64{end}class ModelNew: ...{end}"
    assert PythonKernel.parse(source).bind({"BLOCK_M": 128}).source == source.replace("64", "128")


@pytest.mark.parametrize("character", ENDS_NO_LINE)
def test_separators_are_left_out_where_they_mean_nothing(character: str) -> None:
    text = f'A = \'x{character}y\'  # one{character}two\nB = """\n{character}three\n"""\n# four{character}\n'
    found = without_separators(text)
    assert found == text.replace(f"one{character}", "one ").replace(f"four{character}", "four ")
    assert ast.dump(ast.parse(found)) == ast.dump(ast.parse(text))


def test_a_form_feed_sets_the_indentation_to_zero() -> None:
    text = "def f():\n    \f# a\n    return 1\n  \f\fA = 1 \f + 2\n"
    found = without_separators(text)
    assert found == "def f():\n# a\n    return 1\nA = 1   + 2\n"
    assert ast.dump(ast.parse(found)) == ast.dump(ast.parse(text))


def test_what_is_no_python_stays_as_it_is() -> None:
    assert without_separators('"""\f') == '"""\f'
