"""What a program answers, and why it does not."""

from __future__ import annotations

import pytest
from kernelwright.core import KernelError
from kernelwright.corpus.functions.program import answer_of


def test_the_last_line_is_the_answer() -> None:
    program = "import sys; print('from the user'); print(sys.stdin.read())"
    assert answer_of(["-c", program], '{"a": [1]}', 60, "no answer") == {"a": [1]}


@pytest.mark.parametrize(
    ("program", "timeout_s", "why"),
    [
        ("1 / 0", 60, "ZeroDivisionError: division by zero"),
        ("raise SystemExit(3)", 60, "exit status 3"),
        ("pass", 60, "exit status 0"),
        ("print('so')", 60, "its last line is not an answer: 'so'"),
        ("import time; time.sleep(60)", 0.2, "it did not end in 0.2 s"),
    ],
)
def test_without_an_answer_it_says_why(program: str, timeout_s: float, why: str) -> None:
    with pytest.raises(KernelError) as caught:
        answer_of(["-c", program], "", timeout_s, "no answer", "try again")
    assert str(caught.value) == f"no answer: {why}; try again"
