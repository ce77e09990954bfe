"""Comparisons of runs of a script, and what scripts are refused for."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from kernelwright.core import OptionError, Speedup
from kernelwright.deploy.models.script_runs import GraphBreak, ScriptRun, compared, require_compiled
from kernelwright.deploy.models.watch import ModelWatch

SEEN = ScriptRun(1, 9, 1, (), False, tuple(map(float, range(20))), (), dtypes=("float32",))


def run(**fields: Any) -> ScriptRun:
    return ScriptRun(**{**vars(SEEN), **fields})


@pytest.mark.parametrize(
    ("one", "other", "error", "agrees"),
    [
        ({"curve": (2.0, 4.0)}, {"curve": (2.0, 4.002)}, 5e-4, True),
        ({"curve": (2.0, 4.0)}, {"curve": (2.0, 4.4)}, 0.1, False),
        ({"outputs": ((0.0, 10.0),)}, {"outputs": ((0.05, 10.0),)}, 5e-3, False),
        ({"outputs": ((0.0, 10.0),), "dtypes": ("bfloat16",)}, {"outputs": ((0.05, 10.0),)}, 5e-3, True),
        ({"curve": (math.nan, 1.0)}, {"curve": (math.nan, 1.0)}, 0.0, True),
        ({"curve": (math.nan, 1.0)}, {"curve": (1.0, 1.0)}, math.inf, False),
        ({"curve": (1.0, 1.0)}, {"curve": (1.0,)}, math.inf, False),
        ({"outputs": ((1.0,),)}, {"outputs": ()}, math.inf, False),
        ({"curve": (0.0,)}, {"curve": (1e-4,)}, 1e-4, True),
    ],
)
def test_differences_are_parts_of_the_largest_value(one: Any, other: Any, error: float, agrees: bool) -> None:
    found = compared(run(**one), run(**other), None)
    assert found is not None and found.error == pytest.approx(error) and found.agrees is agrees
    allowed = compared(run(**one), run(**other), 1.0)
    assert allowed is not None and allowed.agrees is math.isfinite(error)


def test_nothing_is_compared_where_nothing_is_returned() -> None:
    assert compared(SEEN, SEEN, None) is None


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"compiled": 0}, "never calls torch.compile; compile its model"),
        ({"called": 0}, "never calls the model that it compiles"),
        ({"graphs": 0}, "is compiled, so that its model runs eagerly; why at a.py:3; TORCH_LOGS"),
    ],
)
def test_scripts_that_compile_nothing(fields: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        require_compiled(Path("a.py"), run(breaks=(GraphBreak("a.py:3", "why", 2),), **fields))
    require_compiled(Path("a.py"), SEEN)


def test_too_few_steps() -> None:
    assert SEEN.counted(5) == tuple(map(float, range(5, 20)))
    with pytest.raises(OptionError, match="makes 20 steps, by calls of the compiled model; 25 are needed"):
        SEEN.counted(20)


def test_small_outputs_and_marks_say_the_precision() -> None:
    """A loss in bf16 is one element, of which a curve is made."""
    for mark, dtype in ((None, "bfloat16"), (torch.ones((), dtype=torch.float16), "float16")):
        watch = ModelWatch("eager", values=True)
        if mark is None:
            watch._calls.append([])
            watch._watched(lambda: torch.ones((), dtype=torch.bfloat16), 0)()
        else:
            watch._marked(mark)
        assert watch.report()["dtypes"] == [dtype]


def test_a_gain_of_several_runs_spans_their_intervals() -> None:
    runs = [Speedup(ratio=ratio, low=ratio - 0.1, high=ratio + 0.1) for ratio in (1.2, 1.0, 1.1)]
    found = Speedup.spanning(runs)
    assert (found.ratio, found.low, found.high) == (1.1, 0.9, pytest.approx(1.3))


def test_the_differences_among_processes_are_in_the_interval() -> None:
    """Each pair by itself would be beyond noise."""
    runs = [Speedup(ratio=ratio, low=ratio * 0.999, high=ratio * 1.001) for ratio in (1.02, 1.04, 1.06)]
    found = Speedup.of_processes(runs)
    assert found.ratio == 1.04 and found.low < 1.0 < 1.08 < found.high
    steady = Speedup.of_processes([Speedup(ratio=1.04, low=1.03, high=1.05)] * 3)
    assert (steady.low, steady.high) == (1.03, 1.05)
    with pytest.raises(ValueError, match="one pair"):
        Speedup.of_processes(runs[:1])
