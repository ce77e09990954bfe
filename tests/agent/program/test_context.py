"""Where a kernel failed, found in what real compilers and real runs say."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from kernelwright.agent.program.briefing import failure_text
from kernelwright.agent.program.context import error_context, gist, last_lines
from kernelwright.core import Config, Evaluation, Kernel, Problem, PythonKernel, Status
from kernelwright.evaluators.local import LocalEvaluator

from ...conftest import SCALE_KERNEL
from ..conversations.telling import changed
from .stand import TRITON

LAUNCH = "scale[(x.shape[0],)](x, self.weight, y, x.shape[1], BLOCK=BLOCK)"
FORWARD = "return build(*x.shape)(x, self.weight)"


def marked(context: str) -> list[str]:
    """The lines that are pointed at."""
    return [line.partition(" | ")[2].strip() for line in context.splitlines() if line.startswith("> ")]


def judged(evaluator: LocalEvaluator, problem: Problem, source: str) -> tuple[Kernel, Evaluation]:
    kernel = PythonKernel.parse(source)
    (evaluation,) = evaluator.evaluate(problem, kernel, [Config()])
    assert not evaluation.ok
    return kernel, evaluation


TILELANG = {
    "a name that is not there": (
        ("* W[j]", "* V[j]"),
        Status.COMPILE_ERROR,
        "NameError: name 'V' is not defined",
        "Y[b * BLOCK + i, j] = X[b * BLOCK + i, j] * V[j]",
    ),
    "an operation that is not there": (
        ("T.grid(", "T.gridd("),
        Status.COMPILE_ERROR,
        "has no attribute 'gridd'",
        "for i, j in T.gridd(BLOCK, N):",
    ),
    "an option that the C++ compiler does not know": (
        ('["-O3"]', '["-O3", "-fno-such"]'),
        Status.COMPILE_ERROR,
        "Compilation Failed",
        'return tilelang.compile(scale, out_idx=[-1], target="c", compile_flags=COMPILE_FLAGS)',
    ),
    "an exception in forward": (
        (FORWARD, FORWARD.replace("weight", "wait")),
        Status.RUNTIME_ERROR,
        "has no attribute 'wait'",
        FORWARD.replace("weight", "wait"),
    ),
    "an assertion": (
        (FORWARD, f'assert x.shape[1] % 512 == 0, "ragged rows"\n        {FORWARD}'),
        Status.RUNTIME_ERROR,
        "AssertionError: ragged rows",
        'assert x.shape[1] % 512 == 0, "ragged rows"',
    ),
}


@pytest.mark.parametrize("case", TILELANG)
def test_the_line_of_a_tilelang_failure_is_found(evaluator: LocalEvaluator, scale_problem: Problem, case: str) -> None:
    change, status, reason, line = TILELANG[case]
    kernel, evaluation = judged(evaluator, scale_problem, changed(SCALE_KERNEL, change))
    assert evaluation.status is status
    assert reason in evaluation.message
    context = error_context(kernel, evaluation)
    assert line in marked(context)
    assert reason in context
    told = failure_text(evaluation, log=True)
    assert reason in told
    assert "hint: fix what" in told
    # TileLang's rewriting of the kernel, which it prints, would only mislead.
    assert "__tb" not in context + told
    assert len(told) < 3500


def test_of_a_cpp_error_the_compilers_own_words_are_reported(evaluator: LocalEvaluator, scale_problem: Problem) -> None:
    source = changed(SCALE_KERNEL, ('["-O3"]', '["-O3", "-fno-such"]'))
    kernel, evaluation = judged(evaluator, scale_problem, source)
    for told in (failure_text(evaluation, log=True), error_context(kernel, evaluation)):
        assert "g++: error: unrecognized command-line option" in told.split("the last lines of its output:\n")[1]


def test_a_wrong_value_is_reported_with_where_and_how_far_off(
    evaluator: LocalEvaluator, scale_problem: Problem
) -> None:
    source = changed(SCALE_KERNEL, ("* W[j]", "* W[j] + 1.0"))
    kernel, evaluation = judged(evaluator, scale_problem, source)
    assert evaluation.status is Status.WRONG_VALUE
    told = failure_text(evaluation, log=True)
    assert re.search(
        r"8192 of 8192 elements differ by more than \S+ \+ 0\.0001 of the value; the first at \(0, 0\): ", told
    )
    assert "; largest error 1" in told
    assert told.splitlines()[-1].startswith("hint: the arithmetic or its precision, a mask, an index")
    context = error_context(kernel, evaluation)
    assert marked(context) == []
    assert context.endswith("it names no line of the kernel")


def test_tritons_interpreter_names_the_launch(evaluator: LocalEvaluator, scale_problem: Problem) -> None:
    kernel, evaluation = judged(evaluator, scale_problem, changed(TRITON, ("value * factor", "value * facto")))
    assert "name 'facto' is not defined" in evaluation.message
    assert "scale[(x.shape[0],)](x, self.weight, y, x.shape[1], BLOCK=BLOCK)" in marked(
        error_context(kernel, evaluation)
    )


REFUSED = {
    "name": (("value * factor", "value * facto"), "tl.store(y + row * N + at, value * facto, mask=mask)", "facto"),
    "operation": (("tl.program_id(", "tl.program_idd("), "row = tl.program_idd(0)", "program_idd"),
    "range": (("tl.arange(0, BLOCK)", "tl.arange(0, BLOCK + 1)"), "at = tl.arange(0, BLOCK + 1)", "power of 2"),
    "shapes": (
        ("value * factor", "value[:, None] * tl.arange(0, 64)"),
        "tl.store(y + row * N + at, value[:, None] * tl.arange(0, 64), mask=mask)",
        "256 and 64",
    ),
    "assertion": (
        ("    row =", '    tl.static_assert(BLOCK % 512 == 0, "BLOCK is ragged")\n    row ='),
        'tl.static_assert(BLOCK % 512 == 0, "BLOCK is ragged")',
        "BLOCK is ragged",
    ),
    "loop": (
        ("    tl.store", "    for i in range(4):\n        value = tl.sum(value)\n    tl.store"),
        "for i in range(4):",
        "Loop-carried variable value",
    ),
    "long": (("    tl.store", "    at += 1\n" * 15 + "    at += a\n    tl.store"), "at += a", "a is not defined"),
}


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Status and message of each kernel, all from one process."""
    sources = {name: changed(TRITON, change) for name, (change, _, _) in REFUSED.items()}
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment["TRITON_CACHE_DIR"] = str(tmp_path_factory.mktemp("triton"))
    run = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("refused_triton.py"))],
        input=json.dumps(sources),
        capture_output=True,
        text=True,
        env=environment,
        timeout=120,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    found: dict[str, str] = json.loads(run.stdout)
    return found


@pytest.mark.parametrize("case", REFUSED)
def test_the_line_of_a_triton_error_is_found(refused: dict[str, str], case: str) -> None:
    change, line, reason = REFUSED[case]
    kernel = PythonKernel.parse(changed(TRITON, change))
    status, _, message = refused[case].partition(": ")
    evaluation = Evaluation(status=Status(status), kernel_digest=kernel.digest, message=message)
    assert evaluation.status is Status.COMPILE_ERROR
    context = error_context(kernel, evaluation)
    # The line that the compiler refuses, and the launch that made it compile.
    assert marked(context) == [line, LAUNCH]
    assert reason in gist(refused[case])


def failed(message: str, log: str = "") -> Evaluation:
    return Evaluation(status=Status.RUNTIME_ERROR, kernel_digest="k", message=message, log=log)


def test_places_are_shown_once_and_in_order() -> None:
    kernel = PythonKernel.parse(SCALE_KERNEL)
    lines = SCALE_KERNEL.splitlines()
    message = (
        f"ValueError: no\nline 33: {lines[32].strip()}\nline 22: {lines[21].strip()}\nline 21: {lines[20].strip()}"
    )
    context = error_context(kernel, failed(message))
    shown = [int(line[1:].split("|")[0]) for line in context.splitlines() if " | " in line]
    assert shown == [*range(17, 27), *range(29, 34)]
    assert marked(context) == [lines[n - 1].strip() for n in (21, 22, 33)]
    assert "  ...\n" in context


def test_a_character_that_ends_no_line_moves_no_place() -> None:
    kernel = PythonKernel.parse(SCALE_KERNEL.replace("Each row", "Each\frow\u2028", 1))
    log = 'File "/x/candidate-1/kernel_3.py", line 33 in forward'
    assert marked(error_context(kernel, failed("killed", log))) == [FORWARD]


def test_lines_of_the_log_are_found_and_others_are_not() -> None:
    kernel = PythonKernel.parse(SCALE_KERNEL)
    log = 'Fatal: \n  File "/x/candidate-1/kernel_3.py", line 33 in forward\n  File "/usr/lib/queue.py", line 20 in get'
    assert marked(error_context(kernel, failed("the process was killed by SIGSEGV", log))) == [FORWARD]
    # A number that is not a line of the kernel, and a line whose text is another.
    assert marked(error_context(kernel, failed("E: see line 7\nline 900: x\nline 33: something else"))) == []


@pytest.mark.parametrize(
    ("message", "line"),
    [
        ("did not finish within 60 s (compiling)", "did not finish within 60 s (compiling)"),
        ("runtime_error: E: no\nline 3: x", "runtime_error: E: no"),
        ("E:\nthe reason\nline 3: x", "E: the reason"),
        (
            "compile_error: CompilationError: at 2:4:\ndef f():\n    x\n    ^\nwhy\nline 3: x",
            "compile_error: CompilationError: why",
        ),
        (
            "CompilationError: at 1:1:\ndef f():\n ^\nline 9: f[1]()\nCompilationError: at 1:1:\ndef g():\n ^\nwhy",
            "CompilationError: why",
        ),
        ("CompilationError: at 1:1:\ndef f():\n ^\nline 9: f[1]()", "CompilationError: at 1:1: def f():"),
        ("y" * 300, "y" * 197 + "..."),
        ("", ""),
    ],
)
def test_the_gist_of_a_failure_is_one_line(message: str, line: str) -> None:
    assert gist(message) == line


def test_the_end_of_a_log_is_reported() -> None:
    assert last_lines("") == ""
    assert last_lines("\n".join(map(str, range(50)))).splitlines() == [str(n) for n in range(30, 50)]
    assert last_lines("source=def make_closure\n    __tb.set_fileline(1)") == ""
