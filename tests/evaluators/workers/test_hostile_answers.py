"""What a candidate's process may answer: anything. It is judged by that, and what comes after it as ever."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from kernelwright.core import Config, Evaluation, Problem, PythonKernel, Status
from kernelwright.evaluators.local import LocalEvaluator
from kernelwright.evaluators.sandbox.untrusted_files import read_untrusted_file
from kernelwright.evaluators.workers.memory import FIELD, DeviceMemory

from ...conftest import SCALE_KERNEL, Unguarded, torch_kernel
from .test_hostile_workers import SHORT, TOP

FORGING = """
import sys
from kernelwright.core.launch_plan import LaunchPlan

REALLY = LaunchPlan.model_dump_json
LAYOUT = {"shape": [4], "strides": [1], "dtype": "float32", "offset": 0}


def forge(change):
    '''While this call is recorded, and not when something looks afterwards.'''
    frame, names = sys._getframe(), set()
    while frame is not None:
        names.add(frame.f_code.co_name)
        frame = frame.f_back
    if "record" not in names:
        return

    def forged(self, **options):
        LaunchPlan.model_dump_json = REALLY
        told = json.loads(self.model_dump_json(**options))
        change(told)
        return json.dumps(told)

    LaunchPlan.model_dump_json = forged


def unknown_kernel(plan):
    plan["steps"].append({"kind": "launch", "code": "none", "arguments": [], "grid": []})


def unknown_input(plan):
    plan["inputs"].append(77)


def endless_result(plan):
    plan["steps"][-1]["layouts"][-1]["shape"] = [1 << 62] * 40


def constant_of_less_than_nothing(plan):
    plan["layouts"]["77"] = {**LAYOUT, "shape": [-4]}
    plan["constants"]["77"] = ""


def constant_beyond_all_memory(plan):
    plan["layouts"]["77"] = {**LAYOUT, "shape": [1 << 45]}
    plan["constants"]["77"] = ""


def large_constant(plan):
    plan["layouts"]["77"] = {**LAYOUT, "shape": [1 << 35]}
    plan["constants"]["77"] = ""


def talks(plan):
    plan["outputs"] = [77]
    plan["steps"][-1]["operator"] = "aten.mul.Tensor"


def violates(where):
    '''Answers for itself, with the request's own number.'''
    frame = sys._getframe()
    while "nonce" not in frame.f_locals:
        frame = frame.f_back
    broken = {"rule": "some-rule", "where": where, "why": "why"}
    send(json.dumps({"ok": True, "violations": [broken], "nonce": frame.f_locals["nonce"]}).encode())
    os._exit(0)
"""
PLANS = (
    "unknown_kernel", "unknown_input", "endless_result", "constant_of_less_than_nothing", "constant_beyond_all_memory",
    "large_constant", "talks",
)  # fmt: skip


@pytest.fixture(scope="module")
def short() -> Iterator[LocalEvaluator]:
    with Unguarded(settings=replace(SHORT, replay_on_cpu=True, require_replay=True)) as shared:
        yield shared


def evaluated(evaluator: LocalEvaluator, problem: Problem, start: str) -> Evaluation:
    source = SCALE_KERNEL.replace("    def forward(self, x):\n", f"    def forward(self, x):\n        {start}\n")
    (found,) = evaluator.evaluate(problem, PythonKernel.parse(source + TOP + FORGING), [Config()])
    return found


@pytest.mark.parametrize("change", PLANS)
def test_a_plan_that_is_none_is_its_kernels_failure(short: LocalEvaluator, scale_problem: Problem, change: str) -> None:
    found = evaluated(short, scale_problem, f"forge({change})")
    assert found.status is not Status.OK and found.message and len(found.message) < 1000, (found.message, found.replay)
    fine = evaluated(short, scale_problem, "fine()")
    assert fine.ok and fine.replay is not None and fine.replay.replayed, (fine.message, fine.replay)


def test_what_it_says_moves_no_cursor(short: LocalEvaluator, scale_problem: Problem) -> None:
    """Neither on a terminal that shows the verdict nor in a prompt or a file that has it."""
    top = FORGING + r"violates('\x1b]0;title\x07\x1b[2Jno\u202etrace\x00')"
    (found,) = short.evaluate(scale_problem, torch_kernel("pass", TOP + top), [Config()])
    assert found.status is Status.REJECTED, found.message
    assert found.rejection is not None and "no" in found.rejection.where
    assert not [text for text in found.rejection.where if unicodedata.category(text)[0] == "C"]


def test_nobody_has_more_memory_than_there_is() -> None:
    known = DeviceMemory()
    for said in ([10**400, 0], [0, 10**400], [-1, 0], ["1", 0], [1.5, 0], None):
        known.note(1, {FIELD: said})
    assert known.peak_bytes is None
    known.note(1, {FIELD: [5, 3]})
    assert known.peak_bytes == 5


def test_a_file_is_not_read_into_more_memory_than_it_has(tmp_path: Path) -> None:
    path = tmp_path / "outputs.bin"
    path.write_bytes(b"few")
    for size, offset in ((1 << 46, 0), (3, 1), (1, 1 << 60)):
        with pytest.raises(OSError, match="bytes are missing"):
            read_untrusted_file(path, size, offset)
    assert read_untrusted_file(path, 2, 1) == b"ew"
