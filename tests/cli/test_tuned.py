"""What a search that ended says and writes, from verdicts that are made up."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path

import pytest
from kernelwright.cli.render import Screen
from kernelwright.cli.request import Request
from kernelwright.cli.tuned import Tuned
from kernelwright.cli.wiring import Job
from kernelwright.core import Config, Evaluation, Measurement, PythonKernel, SearchSpace, TorchProblem
from kernelwright.tuners.discovery import FoundSpace
from kernelwright.tuners.formats import read_recording
from kernelwright.tuners.search import Found, Progress
from rich.console import Console

from ..conftest import SCALE_KERNEL, SCALE_PROBLEM, TORCH_KERNEL
from ..fakes import evaluation

KERNEL = PythonKernel.parse(SCALE_KERNEL, "scale")
SPACE = SearchSpace.of({"BLOCK": [4, 8]})
OTHER, OWN = Config({"BLOCK": 4}), Config({"BLOCK": 8})


def tuned(
    folder: Path,
    *finals: Evaluation,
    trials: tuple[Evaluation, ...] = (),
    kernel: PythonKernel = KERNEL,
    space: SearchSpace = SPACE,
) -> Tuned:
    progress, trials = Progress(), trials or tuple(final for final in finals if final.config)
    for trial in trials:
        progress.add(trial)
    found = Found(trials, finals, progress, "because")
    job = Job(kernel, TorchProblem("level1/1_999", "999_Scale", SCALE_PROBLEM), "cpu", "1_999.py")
    return Tuned(job, "portfolio", 0, FoundSpace(space, "given"), space, found, folder)


def timed(config: Config, *samples_ms: float, contention: float | None = None) -> Evaluation:
    made_up = evaluation(KERNEL, config, samples_ms[0], contention)
    return made_up.model_copy(update={"measurement": Measurement(samples_ms=samples_ms * 10)})


def told(result: Tuned) -> tuple[str, str]:
    """What the user reads: the result, and warnings."""
    screen, texts = Screen(Request()), (StringIO(), StringIO())
    screen.console, screen.errors = (Console(file=text, width=500) for text in texts)
    result.show(screen)
    return texts[0].getvalue(), texts[1].getvalue()


@pytest.mark.parametrize(
    ("best", "start", "faster"),
    [
        ((1.0,), (1.5,), True),
        ((1.0, 1.01), (1.02, 1.03), True),
        ((1.0, 1.03), (1.02, 1.05), False),
        ((1.01,), (1.0,), False),
    ],
)
def test_a_kernel_is_written_where_the_intervals_lie_apart(
    tmp_path: Path, best: tuple[float, ...], start: tuple[float, ...], faster: bool
) -> None:
    result = tuned(tmp_path, timed(OTHER, *best), timed(Config(), *start))
    result.write()
    assert result.faster is faster
    assert (result.summary()["kernel"] is not None) is faster
    assert [path.name for path in tmp_path.glob("*.py")] == [f"1_999_tuned_{result.gain:.3f}x.py"] * faster
    assert ("not measurably faster" in told(result)[0]) is not faster


def test_the_kernels_own_config_is_as_fast_as_itself(tmp_path: Path) -> None:
    result = tuned(tmp_path, timed(OWN, 1.0), timed(Config(), 1.71))
    result.write()
    assert result.summary()["times_as_fast"] == 1.0
    assert result.summary()["kernel"] is None and not list(tmp_path.glob("*.py"))
    assert "not measurably faster than the kernel's own constants" in told(result)[0]


def test_a_kernel_that_fails_as_it_stands_is_replaced(tmp_path: Path) -> None:
    result = tuned(tmp_path, timed(OTHER, 1.0), evaluation(KERNEL, Config(), "wrong_value"))
    result.write()
    assert result.summary()["times_as_fast"] is None
    assert [path.name for path in tmp_path.glob("*.py")] == ["1_999_tuned.py"]


@pytest.mark.parametrize("disturbed", [0, 1])
def test_a_disturbed_gain_names_no_file_and_is_warned_of(tmp_path: Path, disturbed: int) -> None:
    contention = [1.5 if number == disturbed else None for number in range(2)]
    best = timed(OTHER, 1.0, contention=contention[0])
    result = tuned(tmp_path, best, timed(Config(), 2.0, contention=contention[1]))
    result.write()
    assert [path.name for path in tmp_path.glob("*.py")] == ["1_999_tuned.py"]
    assert "warning: other processes used 1.5 cores while this was timed" in told(result)[1]


def test_without_disturbance_there_is_no_warning(tmp_path: Path) -> None:
    shown, warned = told(tuned(tmp_path, timed(OTHER, 1.0), timed(Config(), 2.0)))
    assert "2.00 times as fast as the kernel's own constants" in shown
    assert warned == ""


def test_texts_that_a_csv_cannot_hold(tmp_path: Path) -> None:
    """The trials are then written as T4, and the tuned kernel all the same."""
    kernel = PythonKernel.parse(TORCH_KERNEL.format(top="MODE = '1'", body="return x * self.weight"), "text")
    space = SearchSpace.of({"MODE": ["", "1"]})
    trials = tuple(evaluation(kernel, config, 1.0 + len(str(config["MODE"]))) for config in space)
    finals = (trials[0], evaluation(kernel, Config(), 2.0))
    result = tuned(tmp_path, *finals, trials=trials, kernel=kernel, space=space)
    result.write()
    assert result.kernel_path is not None
    assert PythonKernel.parse(result.kernel_path.read_text()).config == {"MODE": ""}
    assert set(read_recording(tmp_path / "trials.json").results) == set(space)
    assert json.loads((tmp_path / "summary.json").read_text())["best"]["config"] == {"MODE": ""}
