"""Recorded runs, read back: whole ones, those that were cut off, old ones, broken ones."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from kernelwright.agent.history.run import History, load_history
from kernelwright.core import JournalError, KernelwrightError

from .recorded import JOURNAL, RUN, SEARCH, TRANSCRIPT, Record, copied, each


@pytest.fixture(scope="module")
def history() -> History:
    return load_history(RUN)


def test_the_run_and_its_end(history: History) -> None:
    assert (history.problem, history.name, history.backend) == ("level1/1_36", "36_RMSNorm_", "tilelang_cpu")
    assert (history.model, history.device) == ("openai/gpt-4o", "AMD EPYC, 2 cores")
    assert history.sizes == {"batch_size": 16, "dim1": 64, "dim2": 64}
    assert history.environment["tilelang"] == "0.1.15"
    assert history.finished is not None
    end = history.finished
    assert (end.target_speedup, end.target_reached, end.verified) == (3.0, False, True)
    assert end.stopped == "2 iterations done"
    assert history.start is not None and history.best is not None and history.profile is not None
    assert history.start.latency_ms == pytest.approx(10.674, abs=1e-3)
    assert history.best.speedup == pytest.approx(1.238, abs=1e-3)
    assert history.best.interval is not None and history.best.interval[0] < 1.238 < history.best.interval[1]
    assert history.times_faster is None, "its start and its best kernel were timed in two runs"
    assert history.profile.floor_ms == pytest.approx(1.016, abs=1e-3)


def test_a_turn_reports_what_was_tried_and_what_came_of_it(history: History) -> None:
    first, second = history.turns
    assert (first.name, first.category, first.strategy) == ("1.0", "compute", "hoist the reciprocal root")
    assert first.evidence == ("one root and one division per element, in the innermost loop", "half of the cores idle")
    assert first.suggestions[0].startswith("hoist invariants: ")
    assert [attempt.statuses for attempt in first.attempts] == [("wrong_value",), ("ok",)]
    assert first.attempts[0].error.startswith("wrong_value: 4179162 of 4194304 elements differ")
    assert first.before is not None and "/ T.sqrt(" in first.before
    assert first.kernel is not None and "1.0 / T.sqrt(" in first.kernel
    assert "+                sum_square[p] = 1.0 / T.sqrt(sum_square[p] / C + eps)" in first.diff.splitlines()
    assert first.improved and first.gain == pytest.approx(4.085, abs=1e-3)
    assert first.metrics is not None and first.metrics.latency_ms == pytest.approx(2.613, abs=1e-3)
    (tune,) = second.tool_calls
    assert (tune.name, tune.ok, tune.trials, tune.seconds) == ("tune", True, 4, 16.187)
    assert tune.arguments["space"] == {"BLOCK_P": [128, 256, 512, 1024]}
    assert second.metrics is not None and second.kernel is not None and "BLOCK_P = 512" in second.kernel


def test_exchanges_belong_to_the_turn_of_their_lane_and_show_each_message_once(history: History) -> None:
    assert [exchange.lane for exchange in history.exchanges] == ["check.0", *["1.0"] * 4, *["2.0"] * 3]
    _, ask, told, repair = history.exchanges_of(history.turns[0])
    assert [message.role for message in ask.sent] == ["system", "user"]
    assert ask.reply is not None and [call.name for call in ask.reply.tool_calls] == ["search_examples"]
    assert [message.role for message in told.sent] == ["tool", "user"]
    assert told.sent[0].tool_results[0].name == "search_examples"
    assert told.reply is not None and told.reply.tool_calls[0].arguments["strategy"] == "hoist the root"
    assert [message.role for message in repair.sent] == ["system", "user"]  # a new conversation
    assert "evaluate" in ask.tools
    exchanges = history.exchanges_of(history.turns[0])
    assert history.turns[0].tokens == sum(exchange.tokens for exchange in exchanges) == 19170
    assert history.tokens == 34421
    assert history.dollars == pytest.approx(0.10175)


def test_trials_stand_in_the_order_in_which_they_ended_with_those_of_searches(history: History) -> None:
    origins = [trial.origin for trial in history.trials]
    assert origins[:3] == ["start", "turn 1: hoist the root", "turn 1: hoist the reciprocal root"]
    assert origins[3:12] == ["search"] * 4 + ["search: final"] * 5
    assert origins[12:] == ["turn 2: split the samples over threads", "final"]
    elapsed = [trial.elapsed_s or 0.0 for trial in history.trials]
    assert elapsed == sorted(elapsed)
    assert elapsed[0] == pytest.approx(history.trials[0].seconds, abs=0.01)
    assert history.seconds == elapsed[-1]
    assert [trial.metrics.status for trial in history.trials_of(history.turns[0])] == ["wrong_value", "ok"]
    assert history.trials[1].metrics.latency_ms is None


def test_lanes_of_a_beam_are_distinguished(tmp_path: Path) -> None:
    def second_lane(records: list[Record]) -> list[Record]:
        for record in records:
            if record.get("iteration") == 2:
                record |= {"iteration": 1, "lane": 1}
            if record.get("origin", "").startswith("turn 2: "):
                record["origin"] = "turn 1.1: split the samples over threads"
        return records

    found = load_history(copied(tmp_path, change=second_lane))
    first, second = found.turns
    assert second.name == "1.1"
    assert found.exchanges_of(second) == ()
    assert [trial.origin for trial in found.trials_of(second)] == ["turn 1.1: split the samples over threads"]
    assert len(found.trials_of(first)) == 2


def test_a_run_without_a_model_has_no_exchanges(tmp_path: Path) -> None:
    journal = copied(tmp_path, change=each(lambda turn: turn.update(cost={}), "turn"))
    (tmp_path / TRANSCRIPT).unlink()
    history = load_history(journal)
    assert history.files.transcript is None
    assert (history.exchanges, history.tokens, history.dollars) == ((), 0, 0.0)


@pytest.mark.parametrize("place", [".", "multiturn_logs"])
def test_a_folder_is_searched_for_its_one_run(tmp_path: Path, place: str) -> None:
    journal = copied(tmp_path / place)
    assert load_history(tmp_path).files.journal == journal


def test_runs_that_were_set_aside_have_to_be_named(tmp_path: Path) -> None:
    journal = copied(tmp_path)
    for name in (JOURNAL, TRANSCRIPT, SEARCH):
        (tmp_path / name).with_suffix(".1.jsonl").write_bytes((tmp_path / name).read_bytes())
    files = load_history(tmp_path).files
    assert (files.journal, files.searches) == (journal, (tmp_path / SEARCH,))
    aside = load_history(journal.with_suffix(".1.jsonl")).files
    assert aside.transcript == (tmp_path / TRANSCRIPT).with_suffix(".1.jsonl")
    assert aside.searches == ((tmp_path / SEARCH).with_suffix(".1.jsonl"),)


def test_a_folder_with_several_runs_lists_them(tmp_path: Path) -> None:
    journal = copied(tmp_path)
    (other := tmp_path / "journal_1_P_triton.jsonl").write_bytes(journal.read_bytes())
    with pytest.raises(JournalError, match="several runs; name the journal of one") as caught:
        load_history(tmp_path)
    assert str(journal) in str(caught.value) and str(other) in str(caught.value)


def test_where_no_run_is(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="holds no journal of a run"):
        load_history(tmp_path)
    with pytest.raises(JournalError, match="there is no "):
        load_history(tmp_path / "nowhere.jsonl")
    with pytest.raises(JournalError, match="is not a journal of 'optimize'"):
        load_history(RUN / TRANSCRIPT)
    (tmp_path / "history.json").write_text("[\n {}\n]\n")
    with pytest.raises(JournalError, match="line 1 is corrupt"):
        load_history(tmp_path / "history.json")


def test_a_run_that_was_cut_off(tmp_path: Path) -> None:
    def until_the_first_turn(records: list[Record]) -> list[Record]:
        return records[: next(i for i, record in enumerate(records) if record["kind"] == "turn") + 1]

    journal = copied(tmp_path, change=until_the_first_turn)
    with journal.open("a") as file:
        file.write('{"kind": "tri')  # the write that was under way
    history = load_history(journal)
    assert history.finished is None
    assert [turn.number for turn in history.turns] == [1]
    assert history.start is not None and history.start.latency_ms == pytest.approx(10.674, abs=1e-3)
    assert history.best is not None and history.best.latency_ms == pytest.approx(2.613, abs=1e-3)


def test_a_run_that_only_began(tmp_path: Path) -> None:
    history = load_history(copied(tmp_path, change=lambda records: records[:1]))
    assert (history.start, history.best, history.turns, history.profile) == (None, None, (), None)
    assert history.device == "AMD EPYC, 2 cores"
    assert history.times_faster is None
    assert history.to_dataframe().empty


def test_a_run_that_goes_on_after_its_end_has_not_ended(tmp_path: Path) -> None:
    history = load_history(copied(tmp_path, change=lambda records: [*records, records[2]]))
    assert history.finished is None


def test_what_disturbed_trials_measured_counts_only_for_want_of_better(tmp_path: Path) -> None:
    def disturb(record: Record) -> None:
        if record["origin"] == "final":
            record["evaluation"]["contention"] = 1.5

    def open_end(records: list[Record]) -> list[Record]:
        return [record for record in each(disturb, "trial")(records) if record["kind"] != "finished"]

    history = load_history(copied(tmp_path, change=open_end))
    assert history.best is not None and history.best.latency_ms == pytest.approx(2.218, abs=1e-3)


def test_journals_of_before_there_were_models_and_lanes(tmp_path: Path) -> None:
    new = ("lane", "suggestions", "before", "attempts", "tool_calls", "cost")

    def older(records: list[Record]) -> list[Record]:
        for record in records:
            for name in new:
                record.pop(name, None)
            record.pop("at", None)
            if record["kind"] in ("run", "finished"):
                del record["model"]
        return records

    journal = copied(tmp_path, change=older)
    (tmp_path / TRANSCRIPT).unlink()
    history = load_history(journal)
    assert history.model == "rules"
    assert history.seconds is None
    assert [trial.origin for trial in history.trials][-1] == "search: final"  # no times to order them by
    first = history.turns[0]
    assert (first.lane, first.attempts, first.tool_calls, first.tokens, first.before) == (0, (), (), 0, None)
    assert first.evidence and first.gain > 4
    assert list(history.to_dataframe()["status"]) == ["ok", "ok"]


BROKEN: dict[str, tuple[str, Any, str]] = {
    "a turn without its number": ("turn", lambda turn: turn.pop("iteration"), "line 9 is not a valid turn"),
    "a gain in words": ("turn", lambda turn: turn.update(improvement="much"), "line 9 is not a valid turn"),
    "an analysis that is none": ("turn", lambda turn: turn.update(bottleneck_analysis=7), "line 9 is not a valid turn"),
    "no metrics at the end": ("finished", lambda end: end.pop("best"), "line 14 is not a valid finished record"),
    "a profile without work": (
        "profile",
        lambda record: record["profile"].pop("flops"),
        "line 4 is not a valid profile",
    ),
    "a trial of unknown status": (
        "trial",
        lambda record: record["evaluation"].update(status="fine"),
        "not a valid trial",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_record_is_named(tmp_path: Path, case: str) -> None:
    kind, change, says = BROKEN[case]
    with pytest.raises(JournalError, match=says):
        load_history(copied(tmp_path, change=each(change, kind)))


def test_a_corrupt_line_is_named(tmp_path: Path) -> None:
    journal = copied(tmp_path)
    lines = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join([*lines[:5], "}{\n", *lines[5:]]))
    with pytest.raises(JournalError, match="line 6 is corrupt"):
        load_history(journal)


def test_a_broken_exchange_is_named(tmp_path: Path) -> None:
    journal = copied(tmp_path, TRANSCRIPT, each(lambda exchange: exchange.pop("request"), "exchange"))
    with pytest.raises(JournalError, match=f"{TRANSCRIPT}, line 1 is not a valid exchange record: request"):
        load_history(journal)


def test_an_exchange_that_failed_has_an_error(tmp_path: Path) -> None:
    def fail(records: list[Record]) -> list[Record]:
        del records[-1]["reply"]
        records[-1] |= {"error": "rate limit", "dollars": None}
        return records

    last = load_history(copied(tmp_path, TRANSCRIPT, fail)).exchanges[-1]
    assert (last.reply, last.error, last.tokens, last.dollars) == (None, "rate limit", 0, 0.0)


def test_the_table_has_a_row_per_turn(history: History) -> None:
    table = history.to_dataframe()
    assert list(table["turn"]) == [1, 2]
    assert list(table["strategy"]) == ["hoist the reciprocal root", "split the samples over threads"]
    assert list(table["latency_ms"]) == list(table["best_latency_ms"])
    assert (table["speedup_low"] < table["speedup"]).all() and (table["speedup"] < table["speedup_high"]).all()
    assert list(table["tool_seconds"]) == [0.018, 16.187]
    assert list(table["exchanges"]) == [4, 3]
    assert table["tokens"].sum() == 19170 + 15234


def test_a_turn_in_which_nothing_was_correct_keeps_the_best(tmp_path: Path) -> None:
    def fail(turn: Record) -> None:
        if turn["iteration"] == 2:
            turn |= {"best": None, "improved": False, "improvement": 0.0, "error": "compile_error: no such name"}
            turn["attempts"][0]["statuses"] = ["compile_error"]

    table = load_history(copied(tmp_path, change=each(fail, "turn"))).to_dataframe()
    last = table.iloc[1]
    assert (last["status"], last["error"]) == ("compile_error", "compile_error: no such name")
    assert last["best_latency_ms"] == table.iloc[0]["latency_ms"]


def test_a_missing_pandas_says_what_to_install(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(KernelwrightError, match=r"pip install 'kernelwright\[notebooks\]'"):
        history.to_dataframe()
