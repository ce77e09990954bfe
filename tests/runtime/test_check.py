"""`check`: what counts as slower, and the files that it reads and writes. Nothing is measured here."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self
from xml.etree import ElementTree

import kernelwright
import pytest
from kernelwright.commands._check import KernelCheck, Verdict, compare, junit, markdown
from kernelwright.commands.check import Options
from kernelwright.core import Evaluation, Kernel, KernelwrightError, Speedup
from kernelwright.runtime.runtime import Runtime
from kernelwright.runtime.stored_figures import Figure, StoredFigures

from .. import fakes
from ..conftest import SCALE_KERNEL, SCALE_PROBLEM

FIGURE = Figure(
    kernel="1_999.py",
    device="a GPU",
    workload="default",
    sizes="",
    precision="fp32",
    graph=False,
    problem_digest="p",
    kernel_digest="k",
    speedup=Speedup(ratio=2.0, low=1.98, high=2.02),
    runs=3,
    latency_ms=1.0,
    reference_ms=2.0,
    recorded="2026-11-23",
    environment={"torch": "2.13.0"},
)


class Told:
    """An evaluator whose verdicts are told beforehand: milliseconds against a reference of 10, or a status."""

    def __init__(self, *results: Any, contention: float | None = None) -> None:
        self.left = list(results)
        self._contention = contention

    def evaluate(self, problem: object, kernel: Kernel, configs: list[Any]) -> Iterator[Evaluation]:
        yield fakes.evaluation(kernel, configs[0], self.left.pop(0), self._contention)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


@pytest.fixture
def kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a problem and a kernel that names it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scale.py").write_text(SCALE_PROBLEM)
    (tmp_path / "mine.py").write_text(SCALE_KERNEL.replace('"""Each', '"""\nProblem Name: scale.py\n\nEach', 1))
    return tmp_path


def run(monkeypatch: pytest.MonkeyPatch, evaluator: Told, **options: Any) -> KernelCheck:
    monkeypatch.setattr(Runtime, "local_evaluator", lambda self, device, options: lambda: evaluator)
    result = kernelwright.check(("mine.py",), device="cpu", baseline_file="figures.json", **options)
    assert not evaluator.left
    return result.kernels[0]


def test_slower_means_beyond_both_intervals_and_the_tolerance() -> None:
    stored = Speedup(ratio=2.0, low=1.9, high=2.1)
    assert compare(stored, Speedup(ratio=1.8, low=1.7, high=1.91), 0.0) is Verdict.AS_FAST
    assert compare(stored, Speedup(ratio=1.8, low=1.7, high=1.85), 0.0) is Verdict.SLOWER
    assert compare(stored, Speedup(ratio=1.8, low=1.7, high=1.85), 0.05) is Verdict.AS_FAST
    assert compare(stored, Speedup(ratio=2.5, low=2.4, high=2.6), 0.05) is Verdict.FASTER


def test_a_slowdown_must_show_twice(kernels: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = run(monkeypatch, Told(5.0, 5.1, 4.9), record=True)
    assert (recorded.verdict, recorded.failed, recorded.message) == (Verdict.RECORDED, False, "3 of 3 runs")
    assert recorded.stored is not None and recorded.stored.runs == 3
    (entry,) = json.loads((kernels / "figures.json").read_text())["entries"]
    assert entry["speedup"] == {"ratio": 2.0, "low": 10 / 5.1, "high": 10 / 4.9} and entry["runs"] == 3
    once = run(monkeypatch, Told(8.0, 5.1))
    assert (once.verdict, once.failed) == (Verdict.AS_FAST, False) and "once it looked slower" in once.message
    twice = run(monkeypatch, Told(8.0, 8.0))
    assert (twice.verdict, twice.failed) == (Verdict.SLOWER, True) and "37.5% slower" in twice.message
    assert run(monkeypatch, Told(5.2)).verdict is Verdict.AS_FAST
    assert run(monkeypatch, Told(4.0)).verdict is Verdict.FASTER
    assert run(monkeypatch, Told(8.0), tolerance=0.5).verdict is Verdict.AS_FAST


def test_an_entry_that_cannot_be_read_is_recorded_again(kernels: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(monkeypatch, Told(5.0, 5.0, 5.0), record=True)
    path = kernels / "figures.json"
    path.write_text(path.read_text().replace('"runs": 3', '"runs": "many"'))
    with pytest.raises(KernelwrightError, match=r"runs: Input should be a valid integer.*write it again with `record`"):
        run(monkeypatch, Told())
    assert run(monkeypatch, Told(5.0, 5.0, 5.0), record=True).verdict is Verdict.RECORDED
    assert run(monkeypatch, Told(5.0)).verdict is Verdict.AS_FAST


def test_wrong_results_fail_and_are_not_recorded(kernels: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = run(monkeypatch, Told("wrong_value"), record=True)
    assert (wrong.verdict, wrong.failed, wrong.message) == (Verdict.WRONG, True, "wrong value: as told")
    assert not (kernels / "figures.json").exists()


def test_what_the_machine_prevented_fails_and_is_not_called_wrong(
    kernels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = run(monkeypatch, Told("not_measured"), record=True)
    assert (lost.verdict, lost.failed, lost.message) == (Verdict.NOT_MEASURED, True, "as told")
    assert not (kernels / "figures.json").exists()


def test_a_disturbed_timing_is_neither_compared_nor_recorded(kernels: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = run(monkeypatch, Told(5.0, 5.0, contention=0.9), record=True)
    assert (recorded.verdict, recorded.failed) == (Verdict.DISTURBED, True)
    run(monkeypatch, Told(5.0, 5.0, 5.0), record=True)
    compared = run(monkeypatch, Told(9.0, 9.0, contention=0.9))
    assert (compared.verdict, compared.failed) == (Verdict.DISTURBED, False)


def test_figures_of_other_devices_problems_and_versions_do_not_count(
    kernels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(monkeypatch, Told(5.0, 5.0, 5.0), record=True)
    path = kernels / "figures.json"
    content = json.loads(path.read_text())
    entry = content["entries"][0]
    for change, says in (
        ({"device": "a GPU"}, "no stored figure of this kernel and workload on"),
        ({"problem_digest": "another"}, "its problem has changed"),
        ({"environment": {"torch": "1.0"}}, "the reference ran with torch 1.0, and None now"),
    ):
        path.write_text(json.dumps({**content, "entries": [{**entry, **change}]}))
        found = run(monkeypatch, Told(9.0))
        assert (found.verdict, found.failed) == (Verdict.CHECKED, False)
        assert says in found.message
    path.write_text(json.dumps({**content, "entries": [{**entry, "device": "a GPU"}]}))
    assert "there are some of a GPU" in run(monkeypatch, Told(9.0)).message


def test_recording_keeps_what_others_wrote(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    other = {"kernel": "other.py", "device": "a TPU", "anything": [1]}
    path.write_text(json.dumps({"schema": 1, "note": "ours", "entries": [other]}))
    stored = [StoredFigures(path) for _ in range(8)]
    figures = [FIGURE.model_copy(update={"kernel": f"{number}.py"}) for number in range(8)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda pair: pair[0].put(pair[1]), zip(stored, figures, strict=True)))
    stored[0].put(figures[0].model_copy(update={"latency_ms": 0.5}))
    content = json.loads(path.read_text())
    assert content["note"] == "ours" and other in content["entries"]
    assert sorted(entry["kernel"] for entry in content["entries"]) == [*(f"{n}.py" for n in range(8)), "other.py"]
    found = StoredFigures(path).find(figures[0])
    assert found is not None and found.latency_ms == 0.5
    assert [file.name for file in tmp_path.iterdir()] == ["figures.json"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "cannot read `baseline_file`"),
        ("[]", "holds no figures"),
        ('{"schema": 2, "entries": []}', "has schema 2, and this version reads 1"),
    ],
)
def test_a_file_that_holds_no_figures(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "figures.json"
    path.write_text(text)
    with pytest.raises(KernelwrightError, match=says):
        StoredFigures(path)


def test_an_entry_that_is_none_names_file_and_kernel(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    entry = {**FIGURE.model_dump(mode="json"), "latency_ms": -1}
    path.write_text(json.dumps({"schema": 1, "entries": [entry]}))
    with pytest.raises(KernelwrightError, match=r"figures.json: the entry of 1_999.py on a GPU: latency_ms"):
        StoredFigures(path).find(FIGURE)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"files": ()}, "nothing to check"),
        ({"files": ("a", "b"), "problem": "1_1"}, "`problem` names one problem"),
        ({"files": ("a",), "record": True}, "give `baseline_file`"),
        ({"files": ("a",), "tolerance": 5}, "a share such as 0.05"),
        ({"files": ("a",), "junit": "."}, "is a folder"),
    ],
)
def test_options(options: dict[str, Any], says: str) -> None:
    with pytest.raises(KernelwrightError, match=says):
        Options(**options)


# What Jenkins' schema of JUnit's XML (junit-10.xsd), which others follow, allows of what is written here: attributes,
# of which those with a star are required, and children in any order.
SCHEMA = {
    "testsuites": ({"name", "time", "tests", "failures", "disabled", "errors"}, {"testsuite"}),
    "testsuite": (
        {"name*", "tests", "failures", "errors", "time", "skipped", "timestamp", "hostname", "id", "package", "file"},
        {"properties", "testcase", "system-out", "system-err"},
    ),
    "properties": (set(), {"property"}),
    "property": ({"name*", "value*"}, set()),
    "testcase": (
        {"name*", "classname", "time", "status", "assertions", "file", "line"},
        {"skipped", "error", "failure", "system-out", "system-err"},
    ),
    "failure": ({"type", "message"}, set()),
    "system-out": (set(), set()),
}


def valid(element: ElementTree.Element) -> None:
    attributes, children = SCHEMA[element.tag]
    assert set(element.keys()) <= {name.rstrip("*") for name in attributes}
    assert {name[:-1] for name in attributes if name.endswith("*")} <= set(element.keys())
    assert {child.tag for child in element} <= children
    for child in element:
        valid(child)


def test_junit_and_markdown(kernels: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(monkeypatch, Told(5.0, 5.0, 5.0), record=True)
    bad = run(monkeypatch, Told("compile_error"))
    shown = bad.evaluation.model_copy(update={"log": "\x1b[31merror\x1b[0m: a < b && \x00", "environment": {"v": "1"}})
    bad = KernelCheck(**{**vars(bad), "evaluation": shown, "message": "a | b\nc"})
    found = (bad, run(monkeypatch, Told(8.0, 8.0)), run(monkeypatch, Told(5.0)))
    result = ("a GPU", bad.evaluation.environment, found)
    root = ElementTree.fromstring(junit(*result).encode())
    valid(root)
    cases = root.findall("./testsuite/testcase")
    assert [element.find("failure") is not None for element in cases] == [True, True, False]
    assert (root.get("tests"), root.get("failures")) == ("3", "2")
    failure = cases[0].find("failure")
    assert failure is not None and failure.text is not None and "error" in failure.text and "a < b &&" in failure.text
    assert cases[0].get("name") == "mine.py"
    lines = markdown(*result).splitlines()
    assert lines[0] == "### kernelwright check: 1 of 3 kernels passed"
    rows = [line for line in lines if line.startswith("| `mine.py`")]
    assert len(rows) == 3 and "wrong" in rows[0] and "a \\| b c" in rows[0]
    assert "1.250x" in rows[1] and "2.000x" in rows[1] and "slower" in rows[1]
