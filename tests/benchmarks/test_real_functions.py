"""The list of functions of public packages: references and inputs are there, short, and agree with themselves."""

from __future__ import annotations

import importlib.util
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def _loaded(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, BENCHMARKS / f"{name}.py")
    assert spec and spec.loader
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(BENCHMARKS))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(BENCHMARKS))
    return module


functions, call = _loaded("real_functions"), _loaded("real_function_call")
record = _loaded("real_function_record")
ENTRIES, PACKAGES = functions.entries_and_packages()


def test_the_list_covers_what_is_asked() -> None:
    names = [entry.name for entry in ENTRIES]
    assert len(set(names)) == len(names) >= 60
    assert len({entry.package for entry in ENTRIES}) >= 10
    assert sum(entry.package == "vllm" for entry in ENTRIES) >= 43
    assert {entry.package for entry in ENTRIES} == set(PACKAGES)
    assert statistics.median(entry.lines for entry in ENTRIES) <= 8


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_each_reference_takes_its_small_inputs(entry: functions.Entry) -> None:  # type: ignore[name-defined]
    reference, inputs = (call.loaded(entry.file, name) for name in (entry.reference, entry.inputs))
    torch.manual_seed(0)
    arguments = inputs(0, **entry.small)
    copies = [call.copied(argument) for argument in arguments]
    result = reference(*copies)
    written = [
        place
        for place, (before, after) in enumerate(zip(arguments, copies, strict=True))
        if isinstance(before, torch.Tensor) and not call.same(before, after)
    ]
    assert result is not None or written, "it returns nothing, and writes nothing"


def test_results_that_differ_are_described() -> None:
    ones = torch.ones(2, 3)
    assert not call.differs(ones, ones + 1e-6, "result")
    assert call.differs(ones, ones.half(), "result") == "result is float16[2, 3], expected float32[2, 3]"
    assert "2 of 6 numbers differ, by up to 1" in call.differs(ones, ones + torch.eye(2, 3), "result")
    assert call.differs((ones, None), (ones, 4), "result") == "result[1] is 4, expected None"
    assert not call.differs(torch.tensor([7]), torch.tensor([8]), "result")


@pytest.mark.parametrize(
    ("code", "output", "expected"),
    [
        (0, '{"status": "ok"}', "correct"),
        (1, '{"status": "wrong_value", "message": "differs"}', "wrong_value"),
        (2, "", "refused"),
    ],
)
def test_an_evaluation_has_one_outcome(code: int, output: str, expected: str) -> None:
    ran = subprocess.CompletedProcess([], code, output, "error: no such function")
    found = functions.outcome(ran)
    assert found["outcome"] == expected
    assert expected == "correct" or found["reason"]


def test_a_wrong_result_is_judged_where_the_own_call_is_wrong_too() -> None:
    assert record.counts({"outcome": "wrong_value", "own": {"state": "differs"}})
    assert not record.counts({"outcome": "wrong_value", "own": {"state": "agrees"}})
    assert not record.counts({"outcome": "refused", "own": {"state": "agrees"}})


def test_a_record_names_no_place_of_the_machine(tmp_path: Path) -> None:
    """Nor of another one, where earlier rows came from."""
    said = (
        f"no module (/mnt/pkgs/vllm/vllm/envs.py, line 5)\n{tmp_path}/lib/python3.11/site-packages/triton/jit.py:20 "
        f"'{BENCHMARKS}/real_function_call.py', /tmp/x-1/candidate.py; /usr/lib/python3.11/ast.py, see "
        "https://example.org/a/b.py, vllm/v1/ops.py::f, /dev/shm and 2/3"
    )
    row = {"name": "vllm f", "package": "vllm", "lines": 3, "outcome": "refused", "reason": said, "seconds": 1.0}
    row |= {"own": {"state": "fails", "at": "/mnt/pkgs/vllm/vllm/envs.py:5", "with_limits_lifted": {"message": said}}}
    record.write(tmp_path / "record.json", "cpu", [row])
    (written,) = json.loads((tmp_path / "record.json").read_text())["rows"]
    expected = (
        "no module (vllm/envs.py, line 5)\ntriton/jit.py:20 'benchmarks/real_function_call.py', candidate.py; ast.py, "
        "see https://example.org/a/b.py, vllm/v1/ops.py::f, /dev/shm and 2/3"
    )
    assert written["reason"] == written["own"]["with_limits_lifted"]["message"] == expected
    assert written["own"]["at"] == "vllm/envs.py:5"


def test_records_in_the_repository_name_no_place_of_a_machine() -> None:
    for path in (BENCHMARKS.parent / "results" / "samples").rglob("real_functions*.json"):
        for row in json.loads(path.read_text())["rows"]:
            assert record.without_places(row, row["package"]) == row, f"{path.name}: {row['name']}"


times = _loaded("real_function_times")
TIMER = """import json, sys
call = json.loads(sys.stdin.readline())
print("a library's own line")
print("ready", flush=True)
for number, _ in enumerate(sys.stdin):
    print(json.dumps({"ms": 1.0 + 0.01 * number}), flush=True)
print(json.dumps({"overhead_ms": 0.005}))
"""


class Judged(functions.Machine):  # type: ignore[name-defined, misc]
    """A machine on which each function is judged so."""

    def judged(self, entry: functions.Entry) -> dict[str, object]:  # type: ignore[name-defined]
        return {"outcome": "correct", "latency_ms": 1.01}


def test_own_calls_are_timed_before_and_after(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "timer.py").write_text(TIMER)
    monkeypatch.setattr(times, "TIMER", tmp_path / "timer.py")
    machine = Judged(tmp_path, "cuda", 60)
    row = times.measured(ENTRIES[0], machine, times.OwnCall(ENTRIES[0], machine))
    assert [item["ms"] for item in row["own"]] == [1.0, 1.01]
    assert row["own_ms"] == pytest.approx(1.0) and row["ratio"] == pytest.approx(1.01)
    assert "1.010" in times.line_of(row)
    assert times.within([row]) == 0 and times.within([{**row, "ratio": 1.03}]) == 1
    times.OwnCall(ENTRIES[0], machine).ended()  # one that is not needed


def test_a_process_that_cannot_time_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "timer.py").write_text("import sys\nsys.exit(3)\n")
    monkeypatch.setattr(times, "TIMER", tmp_path / "timer.py")
    machine = Judged(tmp_path, "cuda", 60)
    row = times.measured(ENTRIES[0], machine, times.OwnCall(ENTRIES[0], machine))
    assert "ratio" not in row and row["own"][0] == {"state": "crashes", "message": "exit status 3"}
    assert times.within([row]) == 1


def test_parts_are_all_functions_and_each_once() -> None:
    parts = [ENTRIES[number - 1 :: 4] for number, _ in map(times.parse_shard, ("1/4", "2/4", "3/4", "4/4"))]
    assert sorted(item.name for part in parts for item in part) == sorted(item.name for item in ENTRIES)
    with pytest.raises(Exception, match="write 2/4"):
        times.parse_shard("5/4")


@pytest.mark.gpu
def test_a_call_is_timed_on_the_device(tmp_path: Path) -> None:
    """The device's time of a copy of 256 MB, without the launches, and without what is before it."""
    (tmp_path / "ops.py").write_text("import time\n\ndef copy(x):\n    time.sleep(0.002)\n    return x.clone()\n")
    (tmp_path / "bench.py").write_text("import torch\n\ndef inputs(seed):\n    return [torch.randn(1 << 26)]\n")
    asked = {"function": "ops.py::copy", "file": str(tmp_path / "bench.py"), "inputs": "inputs"}
    ran = subprocess.run(
        [sys.executable, str(BENCHMARKS / "real_function_timer.py")],
        input=json.dumps(asked) + "\ngo\ngo\n",
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])},
        capture_output=True,
        text=True,
        timeout=120,
    )
    ready, first, second, last = ran.stdout.splitlines()
    assert ready == "ready" and not json.loads(first)["waits"]
    assert 0.05 < json.loads(first)["ms"] < 1.5, "the host slept for 2 ms"
    assert json.loads(second)["ms"] == pytest.approx(json.loads(first)["ms"], rel=0.1)
    assert 0 <= json.loads(last)["overhead_ms"] < 0.02
