"""`tune` as Python calls it: values of parameters, budgets, which events are told, what is raised."""

from __future__ import annotations

from pathlib import Path

import pytest
from kernelwright import tune
from kernelwright.commands.tune.kernel import TRIALS, Options
from kernelwright.core import (
    DeviceLimits,
    MatrixProduct,
    OptionError,
    SpaceError,
)
from kernelwright.core.events import Event, FinalsStarted, Finished, SearchStarted, Step, TrialDone
from kernelwright.tuners.discovery import parse_params

from ..cli.made_up import MadeUp, install
from ..cli.tuning import workplace
from ..fakes import PROFILE

SCALE = {"problem": "level1/999_Scale.py", "device": "cpu", "sandbox": "none"}


@pytest.fixture
def made_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MadeUp:
    monkeypatch.chdir(workplace(tmp_path))
    return install(MadeUp(), monkeypatch)


def test_a_search_returns_what_it_found_and_tells_of_it(made_up: MadeUp, capsys: pytest.CaptureFixture[str]) -> None:
    heard: list[Event] = []
    result = tune("1_999.py", params={"BLOCK": [4, 32]}, tuner="grid", on_event=heard.append, **SCALE)
    assert result.found.best is not None and result.found.best.config == {"BLOCK": 32}
    assert result.faster and result.kernel_path is not None and result.kernel_path.exists()
    assert result.to_json()["space"] == {"origin": "given", "size": 2, "pruned": 0}
    events = [event for event in heard if not isinstance(event, Step)]
    assert [type(event) for event in events] == [SearchStarted, TrialDone, TrialDone, FinalsStarted, Finished]
    assert isinstance(events[0], SearchStarted) and (events[0].name, events[0].origin) == ("1_999.py", "given")
    assert [event.number for event in events if isinstance(event, TrialDone)] == [1, 2]
    assert capsys.readouterr() == ("", "")


def test_constraints_name_sizes_of_the_problem(made_up: MadeUp, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its constants at the workload, and the extents of its matrix product, which are known with the profile."""
    params = {"BLOCK": [4, 16, 32, 64]}
    result = tune("1_999.py", params=params, constraint=["BLOCK <= rows"], tuner="grid", workload="tiny", **SCALE)
    assert result.to_json()["space"]["size"] == 1
    with pytest.raises(SpaceError, match=r"'BLOCK < M' uses M; .* the problem's sizes columns, rows"):
        tune("1_999.py", params=params, constraint=["BLOCK < M"], tuner="grid", **SCALE)
    with pytest.raises(SpaceError, match=r"'BLOCK < rowz' uses rowz"):
        tune("1_999.py", params=params, constraint=["BLOCK < rowz"], tuner="grid", **SCALE)
    product = MatrixProduct(m=32, n=8, k=8, element_bytes=4)
    monkeypatch.setattr(made_up, "profile", lambda problem: PROFILE.model_copy(update={"product": product}))
    result = tune("1_999.py", params=params, constraint=["BLOCK < M", "BLOCK > N"], tuner="grid", **SCALE)
    assert result.found.best is not None and result.found.best.config == {"BLOCK": 16}


def test_the_kernels_own_config_is_tried_whatever_is_known_of_the_device(
    made_up: MadeUp, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = DeviceLimits(architecture="sm_90", multiprocessors=132, shared_bytes=232448, registers=65536, threads=2048)
    monkeypatch.setattr(made_up, "profile", lambda problem: PROFILE.model_copy(update={"limits": limits}))
    kernel = Path("1_999.py")
    kernel.write_text(f"THREADS = 2048\n{kernel.read_text()}")
    result = tune("1_999.py", params={"THREADS": [512, 2048, 4096]}, tuner="grid", **SCALE)
    assert result.to_json()["space"] == {"origin": "given", "size": 6, "pruned": 3}
    assert {evaluation.config["THREADS"] for evaluation in result.found.evaluations} == {512, 2048}


def test_the_end_of_a_search_is_told_also_when_it_is_interrupted(made_up: MadeUp) -> None:
    heard: list[Event] = []

    def interrupt(event: Event) -> None:
        heard.append(event)
        if isinstance(event, TrialDone):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tune("1_999.py", tuner="grid", on_event=interrupt, **SCALE)
    assert heard[-1] == Finished()


def test_mistakes_are_raised_in_the_words_of_python(made_up: MadeUp) -> None:
    with pytest.raises(OptionError, match=r"^`trials` must be at least 1, not 0"):
        tune("1_999.py", trials=0, **SCALE)
    with pytest.raises(OptionError, match=r"^`stride` is for the grid, and the tuner is portfolio"):
        tune("1_999.py", stride=2, **SCALE)
    with pytest.raises(SpaceError, match=r"^`params` 'BLOCK' names no values"):
        tune("1_999.py", params=["BLOCK"], **SCALE)
    assert made_up.asked_for == ()


@pytest.mark.parametrize(
    ("tuner", "trials", "expected"),
    [("portfolio", None, TRIALS), ("grid", None, None), ("portfolio", 3, 3), ("grid", 1000, 1000)],
)
def test_trials(tuner: str, trials: int | None, expected: int | None) -> None:
    assert Options("1_1", tuner=tuner, trials=trials).budget.trials == expected


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


def test_values_by_name_and_a_single_text() -> None:
    assert parse_params({"BLOCK_M": (32, 64)}) == parse_params("BLOCK_M=32,64") == {"BLOCK_M": [32, 64]}
    assert parse_params(None) == {}
