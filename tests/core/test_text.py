from __future__ import annotations

import pytest
from kernelwright.core.text import first_line


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", ""),
        ("\n  \n  a reason.  \nand more", "a reason."),
        (ValueError("\nno such model.\nTraceback"), "no such model"),
        (ValueError(" \n"), "ValueError"),
        (ValueError("..."), "ValueError"),
    ],
)
def test_the_first_line_that_is_not_blank(text: str | Exception, line: str) -> None:
    assert first_line(text) == line


def test_a_line_is_cut_to_its_limit() -> None:
    assert first_line("a" * 100, 100) == "a" * 100
    assert first_line("a" * 101, 100) == "a" * 97 + "..."
