"""`kernelwright tune kernel`, as a user calls it: real compiles, real checks, real timings on the CPU."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from kernelwright.cli.main import app
from kernelwright.cli.tune_kernel import parse_params
from kernelwright.cli.tuned import Tuned
from kernelwright.cli.wiring import Job
from kernelwright.core import Config, Kernel, Problem, SearchSpace, SpaceError, read_journal
from kernelwright.tuners.discovery import FoundSpace
from kernelwright.tuners.formats import read_recording
from kernelwright.tuners.search import Found, Progress
from typer.testing import CliRunner

from ..agent.test_loop import evaluation
from ..conftest import SCALE_KERNEL, SCALE_PROBLEM, TORCH_KERNEL

SCALE = ("--problem", "level1/999_Scale.py", "--device", "cpu")
SPACE = ("--param", "BLOCK=0,4,16")
"""The compiler refuses a block of 0 rows."""


def kernelwright(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kernelwright", *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=200, check=False)


def tune(*arguments: object, cwd: Path, kernel: str = "1_999.py") -> subprocess.CompletedProcess[str]:
    return kernelwright("tune", "kernel", kernel, *SCALE, *arguments, cwd=cwd)


def refused(run: subprocess.CompletedProcess[str]) -> str:
    assert run.returncode == 2, run.stdout + run.stderr
    assert run.stdout == ""
    lines = run.stderr.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("error: "), run.stderr
    return lines[0]


def workplace(folder: Path) -> Path:
    """The scale kernel and its problem, as a user would have them."""
    (folder / "level1").mkdir(parents=True, exist_ok=True)
    (folder / "level1" / "999_Scale.py").write_text(SCALE_PROBLEM)
    (folder / "1_999.py").write_text(SCALE_KERNEL)
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return workplace(tmp_path)


def journal_in(folder: Path) -> Path:
    (path,) = (folder / "results" / "tuning").rglob("journal.jsonl")
    return path


def trials_in(journal: Path, origin: str) -> list[dict[str, Any]]:
    records = read_journal(journal)
    return [r["evaluation"] for r in records if r["kind"] == "trial" and r["origin"] == origin]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """A search over three configs, one of which fails, that came to its end."""
    folder = workplace(tmp_path_factory.mktemp("finished"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KERNELWRIGHT_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))
        run = tune(*SPACE, "--tuner", "grid", "--plot", "--json", cwd=folder)
    return folder, run


Finished = tuple[Path, subprocess.CompletedProcess[str]]


def test_json_is_exactly_one_object(finished: Finished) -> None:
    folder, run = finished
    assert run.returncode == 0, run.stderr
    assert len(run.stdout.splitlines()) == 1
    found = json.loads(run.stdout)
    assert (found["problem"], found["backend"], found["tuner"]) == ("level1/1_999", "tilelang_cpu", "grid")
    assert found["space"] == {"origin": "given", "size": 3, "pruned": 0}
    assert (found["trials"], found["recalled"], found["failed"]) == (3, 0, 1)
    assert found["statuses"] == {"ok": 2, "compile_error": 1}
    assert found["stopped"] == "every config of the space was tried"
    assert found["best"]["latency_ms"] > 0
    assert found["times_as_fast"] == pytest.approx(found["start"]["latency_ms"] / found["best"]["latency_ms"])
    assert {} in [final["config"] for final in found["finalists"]]
    assert found == json.loads((folder / journal_in(folder)).with_name("summary.json").read_text())
    assert "[3/3]" in run.stderr  # progress does not mix with the object


def test_journal_and_csv_hold_every_trial(finished: Finished) -> None:
    folder, _ = finished
    journal = journal_in(folder)
    searched = trials_in(journal, "search")
    assert [e["config"] for e in searched] == [{"BLOCK": 0}, {"BLOCK": 4}, {"BLOCK": 16}]
    assert [e["status"] for e in searched] == ["compile_error", "ok", "ok"]
    assert {} in [e["config"] for e in trials_in(journal, "final")]
    recording = read_recording(journal.with_name("trials.csv"))
    assert recording.space.names == ("BLOCK",)
    assert {config["BLOCK"]: result.status for config, result in recording.results.items()} == {
        e["config"]["BLOCK"]: e["status"] for e in searched
    }
    assert set(read_recording(journal).results) == set(recording.results)


def test_the_tuned_kernel_is_right_and_has_the_best_constants(folder: Path) -> None:
    """A kernel that does its work TIMES times is fastest when it does it once."""
    once = "return build(*x.shape)(x, self.weight)"
    source = SCALE_KERNEL.replace("BLOCK = 8", "BLOCK = 8\nTIMES = 200").replace(
        once, "return repeated(x, self.weight)"
    )
    repeated = "def repeated(x, w):\n    for _ in range(TIMES):\n        y = build(*x.shape)(x, w)\n    return y\n\n\n"
    (folder / "1_999.py").write_text(source.replace("class ModelNew", repeated + "class ModelNew"))
    run = tune("--param", "BLOCK=8,16", "--param", "TIMES=1,200", "--json", cwd=folder)
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    path = folder / found["kernel"]
    assert path.name.startswith("1_999_tuned")
    tuned = Kernel.parse(path.read_text())
    assert dict(tuned.config) == found["best"]["config"] and tuned.config["TIMES"] == 1
    assert tuned.declared_space is not None
    again = kernelwright("evaluate", "--kernel", found["kernel"], *SCALE, "--json", cwd=folder)
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["status"] == "ok"


def test_a_winner_that_is_no_faster_is_not_written(tmp_path: Path) -> None:
    kernel = Kernel.parse(SCALE_KERNEL, "scale")
    space = SearchSpace.of({"BLOCK": [4, 8]})
    finals = (evaluation(kernel, Config(), 1.0), evaluation(kernel, Config({"BLOCK": 4}), 1.01))
    found = Found(finals[1:], finals, Progress(), "because")
    job = Job(kernel, Problem("level1/1_999", "999_Scale", SCALE_PROBLEM), "cpu", "1_999.py")
    tuned = Tuned(job, "portfolio", 0, FoundSpace(space, "given"), space, found, tmp_path)
    tuned.write()
    assert tuned.summary()["kernel"] is None and not list(tmp_path.glob("*.py"))


def test_what_was_found_is_kept_when_a_search_is_interrupted(folder: Path) -> None:
    command = [sys.executable, "-m", "kernelwright", "tune", "kernel", "1_999.py", *SCALE, *SPACE, "--tuner", "random"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None and run.stderr is not None
        for line in run.stdout:
            if line.startswith("[2/"):
                break
        run.send_signal(signal.SIGINT)
        assert "--resume goes on from here" in run.stderr.read()
    assert run.returncode == 130
    summary = json.loads(journal_in(folder).with_name("summary.json").read_text())
    assert summary["stopped"] == "interrupted" and summary["trials"] >= 2
    assert journal_in(folder).with_name("trials.csv").exists()


def test_the_curve_is_a_png(finished: Finished) -> None:
    folder, _ = finished
    image = journal_in(folder).with_name("convergence.png").read_bytes()
    assert image.startswith(b"\x89PNG\r\n\x1a\n")
    assert len(image) > 5000


def test_a_killed_search_goes_on_and_measures_nothing_twice(folder: Path) -> None:
    """Killed outright after the first trial, and in the middle of a line."""
    arguments = [*SPACE, "--constraint", "BLOCK < 16", "--tuner", "random", "--no-save", "--compilers", "1"]
    command = [sys.executable, "-m", "kernelwright", "tune", "kernel", "1_999.py", *SCALE, *arguments]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as run:
        assert run.stdout is not None
        for line in run.stdout:
            if line.startswith("[1/2]"):
                break
        run.send_signal(signal.SIGKILL)
    assert run.returncode == -signal.SIGKILL
    journal = journal_in(folder)
    before = trials_in(journal, "search")
    assert before
    with journal.open("a") as file:
        file.write('{"kind":"trial","origin":"sea')
    again = tune(*arguments, "--resume", cwd=folder)
    assert again.returncode == 0, again.stderr
    searched = trials_in(journal, "search")
    assert searched[: len(before)] == before
    assert sorted(e["config"]["BLOCK"] for e in searched) == [0, 4]
    lines = again.stdout.splitlines()
    assert "tuning 1_999.py: 2 configs (given space), 0 ruled out by the device" in lines
    assert [line[:5] for line in lines if line.startswith("[")] == ["[1/2]", "[2/2]"]
    assert any(line.startswith("best of 2 trials: BLOCK=4") for line in lines)
    assert "\x1b" not in again.stdout
    summary = json.loads(journal.with_name("summary.json").read_text())
    assert (summary["trials"], summary["recalled"], summary["kernel"]) == (2, len(before), None)
    assert not list(journal.parent.glob("*_tuned*"))


def test_every_config_fails(folder: Path) -> None:
    """Exit code 1; what was found out is kept, and the message is shown as it is."""
    body = "raise ValueError('no [/bold] luck [i, j]')"
    (folder / "1_999.py").write_text(TORCH_KERNEL.format(top="BLOCK = 1", body=body))
    run = tune("--param", "BLOCK=1,2", "--quiet", "--plot", cwd=folder)
    assert run.returncode == 1, run.stderr
    assert run.stdout == ""
    (line,) = run.stderr.splitlines()
    assert line.startswith("failed: none of 2 configs is right")
    assert "2 times runtime_error, first: ValueError: no [/bold] luck [i, j]; all are in results/" in line
    journal = journal_in(folder)
    assert [e["status"] for e in trials_in(journal, "search")] == ["runtime_error"] * 2
    assert json.loads(journal.with_name("summary.json").read_text())["best"] is None
    assert journal.with_name("trials.csv").read_text().count("runtime_error") == 2
    assert not list(journal.parent.glob("*.p[yn]*"))


def test_texts_that_a_csv_cannot_hold(tmp_path: Path) -> None:
    """The trials are then written as T4, and the tuned kernel all the same."""
    source = TORCH_KERNEL.format(top="MODE = '1'", body="return x * self.weight")
    kernel = Kernel.parse(source, "text")
    space = SearchSpace.of({"MODE": ["", "1"]})
    trials = [evaluation(kernel, config, 1.0 + len(str(config["MODE"]))) for config in space]
    finals = (trials[0], evaluation(kernel, Config(), 2.0))
    found = Found(tuple(trials), finals, Progress(), "because")
    job = Job(kernel, Problem("level1/1_999", "999_Scale", SCALE_PROBLEM), "cpu", "text.py")
    tuned = Tuned(job, "portfolio", 0, FoundSpace(space, "given"), space, found, tmp_path)
    tuned.write()
    assert tuned.kernel_path is not None
    assert Kernel.parse(tuned.kernel_path.read_text()).config == {"MODE": ""}
    assert set(read_recording(tmp_path / "trials.json").results) == set(space)
    assert json.loads((tmp_path / "summary.json").read_text())["best"]["config"] == {"MODE": ""}


REFUSED: list[tuple[list[str], str]] = [
    (["--param", "BLOCK"], "--param 'BLOCK' names no values; write it as BLOCK_M=32,64,128"),
    (["--param", "=1,2"], "names no values"),
    (["--param", "BLOCK="], "names no values"),
    (["--param", "BLOCK=4,,8"], "has an empty value"),
    (["--param", "BLOCK=4,4"], "parameter BLOCK names a value twice"),
    (["--param", "BLOCK=4", "--param", "BLOCK=8"], "--param BLOCK is given twice"),
    (["--param", "BLOCK=4,1e999"], "inf is none; give whole numbers"),
    (["--param", "WARPS=4,8"], "has no parameter WARPS; its constants are BLOCK"),
    (["--constraint", "BLOCK > 100"], "no config satisfies 'BLOCK > 100'; loosen it"),
    (["--constraint", "BLOCK > 8", "--constraint", "BLOCK < 8"], "'BLOCK < 8' together with 'BLOCK > 8'"),
    (["--constraint", "WARPS * BLOCK < 64"], "uses WARPS; the parameters are BLOCK"),
    (["--constraint", "open('x') or BLOCK"], "Call is not allowed"),
    (["--constraint", "BLOCK.real > 1"], "Attribute is not allowed"),
    (["--constraint", "BLOCK >"], "is no expression"),
    (["--constraint", "BLOCK + 'x' > 1"], "does not fit its parameters"),
    (["--tuner", "genetic"], "there is no tuner 'genetic'; use one of portfolio, xgboost, hill_climb, annealing"),
    (["--trials", "0"], "--trials must be at least 1, not 0"),
    (["--patience", "-1"], "--patience must be at least 1"),
    (["--compilers", "0"], "--compilers must be at least 1"),
    (["--seconds", "0"], "--seconds must be above 0"),
    (["--seconds", "nan"], "--seconds must be above 0"),
    (["--compile-limit", "inf"], "--compile-limit must be above 0"),
    (["--device", "cuda:99"], "no device cuda:99"),
    (["--device", "cpu,cpu"], "names a device twice"),
    (["--device", "tpu"], "use cpu, cuda, cuda:N or auto"),
    (["--warm", "nowhere.jsonl"], "cannot read nowhere.jsonl"),
    (["--warm", "other.jsonl"], "other.jsonl records the parameters SIZE, but the space has BLOCK"),
    (["--results", "1_999.py"], "choose another"),
]


@pytest.mark.parametrize(("arguments", "says"), REFUSED, ids=[" ".join(arguments) for arguments, _ in REFUSED])
def test_bad_input_is_one_line(
    folder: Path, finished: Finished, monkeypatch: pytest.MonkeyPatch, arguments: list[str], says: str
) -> None:
    """Within this process, since they are many; the next test starts one for some of them."""
    other = journal_in(finished[0]).read_text().replace('"BLOCK"', '"SIZE"')
    (folder / "other.jsonl").write_text(other)
    monkeypatch.chdir(folder)
    found = CliRunner().invoke(app, ["tune", "kernel", "1_999.py", *SCALE, *arguments])
    assert isinstance(found.exception, SystemExit), found.exception
    run = subprocess.CompletedProcess(arguments, found.exit_code, found.stdout, found.stderr)
    assert says in refused(run)
    assert not (folder / "results").exists()


@pytest.mark.parametrize(("arguments", "says"), [REFUSED[3], REFUSED[11], REFUSED[22]])
def test_a_process_ends_so_too(folder: Path, arguments: list[str], says: str) -> None:
    assert says in refused(tune(*arguments, cwd=folder))


@pytest.mark.parametrize("arguments", [["--trials", "many"], ["--no-such-option"], ["--seconds", "1s"]])
def test_options_that_do_not_parse(folder: Path, arguments: list[str]) -> None:
    run = tune(*arguments, cwd=folder)
    assert run.returncode == 2
    assert "Traceback" not in run.stderr


def test_a_kernel_without_parameters(folder: Path) -> None:
    (folder / "1_999.py").write_text(TORCH_KERNEL.format(top="EPS = 1e-5", body="return x * self.weight"))
    assert "declares no SEARCH_SPACE" in refused(tune(cwd=folder))
    assert "the nearest are" in refused(tune(cwd=folder, kernel="level2/2_11.py"))


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda lines: [lines[0], lines[1][:60], *lines[2:]], "journal.jsonl, line 2 is corrupt"),
        (
            lambda lines: [lines[0].replace('"kernel":"', '"kernel":"0'), *lines[1:]],
            "of another search: kernel changed",
        ),
    ],
)
def test_a_journal_that_cannot_be_resumed(finished: Finished, tmp_path: Path, damage: Any, says: str) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(finished[0], folder)
    journal = journal_in(folder)
    journal.write_text("\n".join(damage(journal.read_text().splitlines())) + "\n")
    before = journal.read_bytes()
    assert says in refused(tune("--resume", cwd=folder))
    assert journal.read_bytes() == before


def test_without_resume_the_earlier_journal_is_set_aside(finished: Finished, tmp_path: Path) -> None:
    """Even when it cannot be read; and a second run at the same time is refused."""
    folder = tmp_path / "copy"
    shutil.copytree(finished[0], folder)
    journal = journal_in(folder)
    before = journal.read_bytes()
    command = [sys.executable, "-m", "kernelwright", "tune", "kernel", "1_999.py", *SCALE, *SPACE]
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as run:
        aside = journal.with_suffix(".1.jsonl")
        deadline = time.monotonic() + 60
        while not (aside.exists() and journal.exists() and journal.stat().st_size) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert "in use by another run" in refused(tune("--resume", cwd=folder))
        run.send_signal(signal.SIGINT)
        _, errors = run.communicate(timeout=60)
    assert run.returncode == 130, errors
    assert errors.strip().endswith("interrupted; the same command with --resume goes on from here")
    assert aside.read_bytes() == before


@pytest.mark.parametrize(
    ("texts", "values"),
    [
        (["BLOCK_M=32,64"], {"BLOCK_M": [32, 64]}),
        ([" A = 1 , 2 ", "B=x"], {"A": [1, 2], "B": ["x"]}),
        (["A=True,False"], {"A": [True, False]}),
        (["A=0.5,-1,'7',None,row-major"], {"A": [0.5, -1, "7", "None", "row-major"]}),
        (["A=x=y"], {"A": ["x=y"]}),
        ([], {}),
    ],
)
def test_values_of_parameters(texts: list[str], values: dict[str, list[object]]) -> None:
    found = parse_params(texts)
    assert found == values
    assert [[type(v) for v in found[name]] for name in found] == [[type(v) for v in values[name]] for name in values]


@pytest.mark.parametrize("text", ["", "A", "1A=2", "A-B=1", "A=", "A= ,1", "A=1,", "=1"])
def test_texts_that_are_no_parameter(text: str) -> None:
    with pytest.raises(SpaceError, match="write it as BLOCK_M=32,64,128"):
        parse_params([text])
