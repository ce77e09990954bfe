"""What a search that ended writes, from verdicts that are made up."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from kernelwright.core import Config, Evaluation, PythonKernel, Replay, SearchSpace
from kernelwright.tuners.formats import read_recording

from ..conftest import TORCH_KERNEL
from ..fakes import evaluation
from .tunings import KERNEL, OTHER, OWN, timed, tuned


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
    assert (result.to_json()["kernel"] is not None) is faster
    assert [path.name for path in tmp_path.glob("*.py")] == [f"1_999_tuned_{result.gain:.3f}x.py"] * faster


def test_the_kernels_own_config_is_as_fast_as_itself(tmp_path: Path) -> None:
    result = tuned(tmp_path, timed(OWN, 1.0), timed(Config(), 1.71))
    result.write()
    assert result.to_json()["times_as_fast"] == 1.0
    assert result.to_json()["kernel"] is None and not list(tmp_path.glob("*.py"))


def test_a_kernel_that_fails_as_it_stands_is_replaced(tmp_path: Path) -> None:
    result = tuned(tmp_path, timed(OTHER, 1.0), evaluation(KERNEL, Config(), "wrong_value"))
    result.write()
    assert result.to_json()["times_as_fast"] is None
    assert [path.name for path in tmp_path.glob("*.py")] == ["1_999_tuned.py"]


@pytest.mark.parametrize("disturbed", [0, 1])
def test_a_disturbed_gain_names_no_file(tmp_path: Path, disturbed: int) -> None:
    contention = [1.5 if number == disturbed else None for number in range(2)]
    best = timed(OTHER, 1.0, contention=contention[0])
    result = tuned(tmp_path, best, timed(Config(), 2.0, contention=contention[1]))
    result.write()
    assert [path.name for path in tmp_path.glob("*.py")] == ["1_999_tuned.py"]


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


def test_what_is_not_replayed_is_not_written_unless_the_caller_accepts_it(tmp_path: Path) -> None:
    alone = Replay(replayed=False, reason="reads values of a tensor into Python")
    best = Evaluation(**{**dict(timed(OTHER, 1.0)), "replay": alone})
    result = tuned(tmp_path, best, timed(Config(), 1.5))
    assert (result.unproven, result.kernel_path) == (alone.why_not, None)
    assert result.to_json()["best"]["status"] == "unproven"
    accepted = tuned(tmp_path, best.accepted(), timed(Config(), 1.5))
    assert (accepted.unproven, accepted.kernel_path is None) == ("", False)
