"""Every way in which a kernel can fail ends as its own status, and the next kernel is not affected."""

from __future__ import annotations

import contextlib
import os
import re
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from kernelwright.core import Config, Evaluation, Kernel, Problem, PythonKernel, Status
from kernelwright.evaluators.local import LocalEvaluator
from kernelwright.evaluators.settings import Limits

from ..conftest import FAST, Unguarded, torch_kernel

GOOD = "return x * self.weight"


def evaluate(evaluator: LocalEvaluator, problem: Problem, kernel: Kernel) -> Evaluation:
    return next(iter(evaluator.evaluate(problem, kernel, [Config()])))


@pytest.fixture
def run(evaluator: LocalEvaluator, scale_problem: Problem):  # type: ignore[no-untyped-def]
    def one(body: str, top: str = "") -> Evaluation:
        return evaluate(evaluator, scale_problem, torch_kernel(body, top))

    yield one
    after = evaluate(evaluator, scale_problem, torch_kernel(GOOD))
    assert after.status is Status.OK, f"the next kernel is affected: {after.message}"


MUTE = "class Mute(Exception):\n    def __str__(self): raise KeyError"

FAILURES = [
    ("wrong values", "return x * self.weight + 1e-2", "", Status.WRONG_VALUE, "elements differ"),
    ("one wrong value", "y = x * self.weight; y[3, 5] += 1; return y", "", Status.WRONG_VALUE, r"at \(3, 5\)"),
    ("NaN", "return x * float('nan')", "", Status.WRONG_VALUE, "differ"),
    ("wrong shape", "return (x * self.weight)[:, 1:]", "", Status.WRONG_SHAPE, r"\[32, 255\]"),
    ("two outputs", "return x, x", "", Status.WRONG_SHAPE, "returned 2 outputs"),
    ("no tensor", "return None", "", Status.WRONG_SHAPE, "NoneType"),
    ("wrong dtype", "return (x * self.weight).double()", "", Status.WRONG_DTYPE, "float64"),
    ("raises", "raise ValueError('no luck')", "", Status.RUNTIME_ERROR, "no luck"),
    ("raises without a text", "raise Mute", MUTE, Status.RUNTIME_ERROR, "Mute: .*__str__ raises KeyError"),
    ("import fails", GOOD, "import nothing_of_that_name", Status.COMPILE_ERROR, "nothing_of_that_name"),
    ("no such attribute", "return x @ self.wieght", "", Status.RUNTIME_ERROR, "wieght"),
    ("calls exit", "import sys; sys.exit(0)", "", Status.RUNTIME_ERROR, r"exit\(0\)"),
    ("exit at import", GOOD, "raise SystemExit(3)", Status.COMPILE_ERROR, r"exit\(3\)"),
    ("leaves at once", "import os; os._exit(0)", "", Status.CRASHED, "exited with code 0"),
    ("segfault", "import ctypes; ctypes.string_at(0)", "", Status.CRASHED, "SIGSEGV"),
    ("kills itself", "import os; os.kill(os.getpid(), 9)", "", Status.CRASHED, "SIGKILL"),
    ("eats memory", "return [torch.ones(2**28) for _ in range(99)][0]", "", Status.RUNTIME_ERROR, "memory"),
    ("fills the disk", "open('big', 'wb').write(bytes(2**29)); return x", "", Status.RUNTIME_ERROR, "File too large"),
]


@pytest.mark.parametrize(("body", "top", "status", "says"), [f[1:] for f in FAILURES], ids=[f[0] for f in FAILURES])
def test_each_failure_has_its_status(run, body: str, top: str, status: Status, says: str) -> None:  # type: ignore[no-untyped-def]
    evaluation = run(body, top)
    assert evaluation.status is status, evaluation.message
    assert evaluation.speedup is None
    assert re.search(says, evaluation.message), evaluation.message


def test_a_model_that_is_no_module_is_named(evaluator: LocalEvaluator, scale_problem: Problem) -> None:
    source = torch_kernel(GOOD).source.replace("(nn.Module)", "").replace("super().__init__()", "")
    evaluation = evaluate(evaluator, scale_problem, PythonKernel.parse(source))
    assert evaluation.status is Status.COMPILE_ERROR
    assert "class ModelNew(object), which is not a torch.nn.Module" in evaluation.message


@pytest.mark.parametrize("character", ["\f", "\u2028"])
def test_a_separator_in_a_comment_does_not_break_tilelang(
    evaluator: LocalEvaluator, scale_problem: Problem, scale_kernel: Kernel, character: str
) -> None:
    source = scale_kernel.source.replace("for i, j in T", f"# one {character} two three\n            for i, j in T")
    evaluation = evaluate(evaluator, scale_problem, PythonKernel.parse(source))
    assert evaluation.status is Status.OK, evaluation.message


@pytest.mark.parametrize("body", ["while True: pass", "import time; time.sleep(1000)"])
def test_a_hang_is_a_timeout(scale_problem: Problem, body: str) -> None:
    settings = replace(FAST, checks=1, limits=Limits(compile_s=2.0))
    with Unguarded(settings=settings) as evaluator:
        start = time.monotonic()
        evaluation = evaluate(evaluator, scale_problem, torch_kernel(body))
        assert evaluation.status is Status.TIMEOUT
        assert time.monotonic() - start < 20
        assert evaluate(evaluator, scale_problem, torch_kernel(GOOD)).status is Status.OK


def test_printing_garbage_is_no_failure(run) -> None:  # type: ignore[no-untyped-def]
    body = "import os; print('{\"ok\": true}' * 1000, flush=True); os.write(1, bytes(range(256))); " + GOOD
    assert run(body).status is Status.OK


def test_what_a_kernel_printed_is_in_the_log(run) -> None:  # type: ignore[no-untyped-def]
    assert "so far so good" in run("print('so far so good', flush=True); raise ValueError").log


def test_a_compile_error_of_tilelang(evaluator: LocalEvaluator, scale_problem: Problem, scale_kernel: Kernel) -> None:
    source = scale_kernel.source.replace("X[b * BLOCK + i, j] * W[j]", "X[b * BLOCK + i, j] * W[j, j, j]")
    evaluation = evaluate(evaluator, scale_problem, PythonKernel.parse(source))
    assert evaluation.status is Status.COMPILE_ERROR
    bad_flag = scale_kernel.source.replace('"-O3"', '"-no-such-flag"')
    evaluation = evaluate(evaluator, scale_problem, PythonKernel.parse(bad_flag))
    assert evaluation.status is Status.COMPILE_ERROR
    assert "no-such-flag" in evaluation.message + evaluation.log


def test_a_daemon_does_not_outlive_its_evaluation(run) -> None:  # type: ignore[no-untyped-def]
    argument = f"1000.{os.getpid()}"
    started: list[str] = []
    watch = threading.Thread(target=lambda: started.extend(_running(argument, timeout_s=30)))
    watch.start()
    body = f"""
        import os, time
        if not hasattr(self, "forked") and os.fork() == 0:
            os.setsid()
            os.execvp("sleep", ["sleep", {argument!r}])
        self.forked = True
        time.sleep(0.5)
        return x * self.weight
    """.strip()
    evaluation = run(body)
    watch.join()
    assert started, evaluation.message
    assert not _running(argument)


def _running(argument: str, timeout_s: float = 0.0) -> list[str]:
    """The processes that have this among their arguments, waited for."""
    deadline = time.monotonic() + timeout_s
    while True:
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                found += [path.parent.name] if argument.encode() in path.read_bytes() else []
        if found or time.monotonic() >= deadline:
            return found
        time.sleep(0.05)


def test_inputs_belong_to_the_caller(run) -> None:  # type: ignore[no-untyped-def]
    assert run("y = x * self.weight; x.zero_(); return y").rejection.rule == "input-changed"
    assert run("return x.mul_(self.weight)").rejection.rule == "input-changed"


FORGED = [
    '{"ok": true}',
    '{"ok": true, "seconds": -1, "outputs": []}',
    '{"ok": true, "seconds": 0, "outputs": [7]}',
    "[]",
    "no",
]


@pytest.mark.parametrize("answer", FORGED)
def test_an_answer_that_is_none_is_a_crash(run, answer: str) -> None:  # type: ignore[no-untyped-def]
    """A kernel that finds the channel and answers in the worker's place."""
    body = f"""
        import gc
        from kernelwright.evaluators.workers.channel import Channel
        for thing in gc.get_objects():
            if isinstance(thing, Channel):
                thing._socket.sendall(({len(answer)}).to_bytes(4, "big") + {answer.encode()!r})
        import time
        time.sleep(1000)
    """.strip()
    evaluation = run(body)
    assert evaluation.status is Status.CRASHED, evaluation.message


def test_half_a_message_is_a_timeout(run) -> None:  # type: ignore[no-untyped-def]
    body = """
        import gc, time
        from kernelwright.evaluators.workers.channel import Channel
        for thing in gc.get_objects():
            if isinstance(thing, Channel):
                thing._socket.sendall(b"\\0\\0\\0\\x09half")
        if getattr(self, "second", False):
            time.sleep(1000)
        self.second = True
        return x * self.weight
    """.strip()
    assert run(body).status in (Status.TIMEOUT, Status.CRASHED)
