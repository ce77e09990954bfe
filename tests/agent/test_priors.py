"""What rules are expected to gain, from recorded turns."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from kernelwright.agent.priors import NEVER_HELPED, UNKNOWN, expected, kind_of, prior_of, recorded_gains
from kernelwright.core import TurnRecord
from kernelwright.core.turn_record import AnalysisRecord, AttemptRecord


def turn(work: str, **gains: float) -> dict[str, object]:
    attempts = [AttemptRecord(strategy=name.replace("_and_", " + "), gain=gain) for name, gain in gains.items()]
    searched = AttemptRecord(strategy="searched")
    record = TurnRecord(
        number=1, strategy="s", improved=True, analysis=AnalysisRecord(work=work), attempts=(*attempts, searched)
    )
    return record.to_json()


def test_recorded_turns_tell_what_a_rule_gained_on_each_kind(tmp_path: Path) -> None:
    history = [turn("streams", half=2.0, vain=0.9, half_and_vain=1.8), turn("products", half=0.5)]
    (tmp_path / "optimization_history_1_A_triton.json").write_text(json.dumps(history))
    (tmp_path / "optimization_history_2_B_triton.json").write_text(json.dumps([turn("streams", half=2.0, vain=0.0)]))
    (tmp_path / "optimization_history_3_C_triton.json").write_text("torn")
    (tmp_path / "optimization_history_1_A_tilelang_cpu.json").write_text(json.dumps([turn("streams", other=3.0)]))
    found = recorded_gains(tmp_path, "triton")
    assert {kind: set(rules) for kind, rules in found.items()} == {
        "triton streams": {"half", "vain"},
        "triton products": {"half"},
    }
    prior = prior_of(found)
    streams = kind_of("triton", "streams")
    assert prior("half", streams) > UNKNOWN > prior("vain", streams) > NEVER_HELPED
    assert prior("half", kind_of("triton", "products")) < UNKNOWN
    assert prior("other", streams) == UNKNOWN


@pytest.mark.parametrize(
    ("gains", "least", "most"),
    [
        ([], UNKNOWN, UNKNOWN),
        ([0.0, 0.9, 1.01], NEVER_HELPED, NEVER_HELPED),
        ([0.0, 0.9], 1.001, UNKNOWN),
        ([0.0, 0.9, 1.5], 1.001, 1.5),
        ([100.0], UNKNOWN, 2.2),
    ],
)
def test_few_trials_say_little(gains: list[float], least: float, most: float) -> None:
    assert least <= expected(gains) <= most
