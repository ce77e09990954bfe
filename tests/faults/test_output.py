"""What others write is shown as text, whatever it is and however much; output that nobody takes is no traceback."""

from __future__ import annotations

import dataclasses
import io
import logging
import subprocess
import sys

import pytest
from kernelwright.cli.execution import PlainFormatter, guarded
from kernelwright.cli.screens import Display, PlainConsole, Screen
from kernelwright.core import KernelwrightError, TorchProblem
from kernelwright.core.events import Note, PartDone, Warned
from kernelwright.core.quotation import LONGEST_LINE, printable
from kernelwright.core.verdict import Status
from kernelwright.evaluators.local import LocalEvaluator
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from ..conftest import torch_kernel

ESCAPES = "\x1b]0;owned\x07\x1b[2J\x1b[31mred\x9b5m\u202egnp\x00\r\x08"
LONG = "x" * 3_000_000


def drawn(*parts: object, terminal: bool = False) -> str:
    stream = io.StringIO()
    console = PlainConsole(file=stream, force_terminal=terminal, color_system=None, width=100, soft_wrap=not terminal)
    console.print(*parts)
    return stream.getvalue()


def is_plain(text: str) -> bool:
    return printable(text) == text and "\x1b" not in text


@pytest.mark.parametrize("terminal", [False, True])
def test_no_text_of_others_moves_a_terminal(terminal: bool) -> None:
    table = Table("config", "message")
    table.add_row(ESCAPES, ESCAPES)
    for shown in (drawn(ESCAPES), drawn(Text(ESCAPES), terminal=terminal), drawn(table), drawn("a", ESCAPES)):
        assert "red" in shown and is_plain(shown)


def test_what_we_draw_ourselves_stays() -> None:
    stream = io.StringIO()
    console = PlainConsole(file=stream, force_terminal=True, color_system="standard", width=40)
    console.print("[red]seen[/]", end="\r")
    assert stream.getvalue() == "\x1b[31mseen\x1b[0m\r"


def test_of_a_long_line_the_middle_is_left_out() -> None:
    shown = drawn(f"begin {LONG} end\nnext")
    assert len(shown) < 2 * LONGEST_LINE
    assert shown.startswith("begin x") and " end\nnext" in shown and "characters ...]" in shown
    assert len(drawn(f"[red]{LONG}[/]", terminal=True)) < 2 * LONGEST_LINE
    assert "[Errno 28]" in drawn(escape(f"[Errno 28] [red] {LONG}"))


def test_events_logs_and_errors_are_shown_so(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen(Display())
    for event in (Note(ESCAPES), Warned(ESCAPES), PartDone(1, 2, ESCAPES, text=ESCAPES)):
        screen.emit(event)

    def fails() -> int:
        raise KernelwrightError(f"cannot use {ESCAPES}{LONG}", "give another")

    assert guarded(fails) == 2
    said = capsys.readouterr()
    assert is_plain(said.out) and is_plain(said.err)
    assert said.err.rstrip().endswith("; give another") and len(said.err) < 4 * LONGEST_LINE
    record = logging.LogRecord("kernelwright", logging.WARNING, "f", 1, "%s", (ESCAPES,), None)
    assert is_plain(PlainFormatter("%(message)s").format(record))


def kernelwright(arguments: str) -> subprocess.CompletedProcess[str]:
    """A command in a shell, which may limit it or send its output somewhere."""
    return subprocess.run(
        ["bash", "-c", f"ulimit -c 0; {arguments}".replace("KW", f"{sys.executable} -m kernelwright")],
        capture_output=True,
        text=True,
        cwd="/",
        timeout=100,
    )


@pytest.mark.parametrize(
    ("shell", "says"),
    [
        ("KW config > /dev/full", "No space left on device"),
        ("KW --help > /dev/full", "No space left on device"),
        ("KW docs evaluation > /dev/full", "No space left on device"),
        ("KW list --json | true", ""),
        ("ulimit -n 12; KW config", ""),
        ("KW config --json >&-", ""),
        ("LC_ALL=C PYTHONUTF8=0 PYTHONCOERCECLOCALE=0 PYTHONIOENCODING=ascii KW optimize --help", ""),
    ],
)
def test_output_that_nobody_takes_is_no_traceback(shell: str, says: str) -> None:
    done = kernelwright(shell)
    assert "Traceback" not in done.stderr and "Exception ignored" not in done.stderr, done.stderr[-2000:]
    assert says in done.stderr
    assert len(done.stderr.strip().splitlines()) <= 1, done.stderr


def test_a_kernel_that_never_stops_printing_is_stopped_and_named(
    evaluator: LocalEvaluator, scale_problem: TorchProblem
) -> None:
    kernel = torch_kernel("[print('noise ' * 10_000) for _ in range(20_000)]; return x * self.weight")
    (found,) = evaluator.evaluate(scale_problem, kernel, [{}])
    assert found.status is Status.CRASHED, "it is the kernel's own doing"
    assert "was stopped, since it printed more than 64 MB in one request" in found.message
    assert len(found.log) <= 4096


def test_a_reference_that_never_stops_printing_is_stopped_and_named(
    evaluator: LocalEvaluator, scale_problem: TorchProblem
) -> None:
    printing = "[print('noise ' * 10_000) for _ in range(20_000)]"
    source = scale_problem.source.replace("        return x", f"        {printing}\n        return x")
    assert source != scale_problem.source
    loud = dataclasses.replace(scale_problem, source=source)
    with pytest.raises(KernelwrightError, match=r"the reference of .* was stopped, since it printed more than 64 MB"):
        list(evaluator.evaluate(loud, torch_kernel("return x * self.weight"), [{}]))
