"""What a journal holds: read back as it was written, the same on disk as ever, and of any age."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kernelwright.core import (
    Config,
    Evaluation,
    ExchangeRecord,
    FinishedRecord,
    Journal,
    JournalError,
    KernelRecord,
    Metrics,
    Record,
    RunRecord,
    Status,
    ToolCall,
    Trial,
    TurnRecord,
    read_journal,
)
from kernelwright.core.exchange_record import Message, ModelToolCall, ModelToolResult, Reply, Request
from kernelwright.core.records import parse_record
from kernelwright.core.turn_record import AnalysisRecord, AttemptRecord

from ..fakes import evaluation, kernel
from .record_strategies import KINDS

HERE = Path("journal.jsonl")
ROOT = Path(__file__).parents[2]
OTHERS = {ROOT / "tests" / "corpus" / "flashinfer_trace", ROOT / "tests" / "upgrade"}
"""Lines of another format; signed journals and archives of earlier versions, which tests/upgrade reads."""
RECORDED = sorted(
    path
    for path in (*ROOT.glob("results/samples/**/*.jsonl"), *ROOT.glob("tests/**/*.jsonl"))
    if OTHERS.isdisjoint(path.parents)
)
TIMED: Evaluation = evaluation(kernel(5.0), Config({"A": 2}), 5.0)


def test_every_kind_is_drawn() -> None:
    assert set(KINDS) == set(get_args(get_args(Record)[0]))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@given(data=st.data())
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=15)
def test_a_record_is_read_back_as_it_was_written(kind: type[Any], data: st.DataObject) -> None:
    record = data.draw(KINDS[kind])
    line = json.dumps(record.to_json(), allow_nan=False)
    assert parse_record(json.loads(line), HERE, 1) == record
    later = {**json.loads(line), "of a later version": [1]}
    assert parse_record(later, HERE, 1) == record


METRICS = (
    '"status":"ok","latency_ms":5.0,"reference_ms":10.0,"speedup":2.0,"interval":[2.0,2.0],"speedup_default":null,'
    '"interval_default":null,"precision":"fp32","default_is_reference":false,"contention":null'
)
GOLDEN: list[tuple[Record, str]] = [
    (
        RunRecord(problem="p", reference="r", sizes="[]", kernel="k", device="d", allow_torch="off", graph="False",
                  proof="replayed", versions="torch 1", backend="triton", model="rules"),
        '{"kind":"run","problem":"p","reference":"r","sizes":"[]","kernel":"k","device":"d","allow_torch":"off",'
        '"graph":"False","precision":"fp32","against":"strict","proof":"replayed",'
        '"versions":"torch 1","backend":"triton","model":"rules"}',
    ),
    (KernelRecord(digest="k", source="s\n"), '{"kind":"kernel","digest":"k","source":"s\\n"}'),
    (
        Trial(origin="start", evaluation=evaluation(kernel(1.0), Config(), "timeout"), seconds=1.5, at="2025"),
        '{"kind":"trial","origin":"start","evaluation":{"status":"timeout","kernel_digest":"DIGEST","config":{},'
        '"origin":"simulated","message":"as told","log":"","baselines":{},"precision":"fp32",'
        '"default_is_reference":false,"telemetry":{},"stages":{},"environment":{}},"seconds":1.5,"at":"2025"}',
    ),
    (
        TurnRecord(
            number=1, lane=2, analysis=AnalysisRecord(category="memory", latency_ms=5.0, floor_ms=1.0),
            suggestions=("a",), strategy="tile", proposal_category="compute", rationale="because", before="a",
            kernel="b", diff="-a\n+b", improved=True, improvement=0.5, error="",
            attempts=(AttemptRecord(strategy="tile", kernel="b", statuses=(Status.OK,)),),
            evaluations=(), metrics=TIMED.summary(),
            tool_calls=(ToolCall(name="tune", arguments={"n": 4}, result="r", ok=True, seconds=0.5, trials=4),),
            cost={"exchanges": 2, "tokens": 30, "dollars": 0.5, "seconds": 1.0},
        ),
        '{"kind":"turn","iteration":1,"lane":2,"bottleneck_analysis":{"category":"memory","ranking":[],"evidence":[],'
        '"tier":"","performance":"","suggestions":[],"work":"","latency_ms":5.0,"floor_ms":1.0},"suggestions":["a"],'
        '"strategy":"tile","category":"compute","rationale":"because","before":"a","kernel":"b",'
        '"code_changes":"-a\\n+b","improved":true,"improvement":0.5,"error":"","attempts":[{"strategy":"tile",'
        '"kernel":"b","error":"","statuses":["ok"]}],"evaluation_results":[],"best":{METRICS,"config":{"A":2},'
        '"max_abs_error":0.0,"compile_s":null,"message":""},"tool_calls":[{"name":"tune","arguments":{"n":4},'
        '"result":"r","ok":true,"seconds":0.5,"trials":4}],"cost":{"exchanges":2,"tokens":30,"dollars":0.5,'
        '"seconds":1.0}}',
    ),
    (
        FinishedRecord(
            problem="p", device="d", backend="triton", workload="default", target_speedup=2.0, target_reached=True,
            verified=True, start=Metrics(status=Status.OK), best=TIMED.metrics(), model="rules", iterations=1, turns=1,
            tokens=30, dollars=0.5, stopped="done", cut_short=False, kernel="k.py", history=None,
        ),
        '{"kind":"finished","problem":"p","device":"d","backend":"triton","workload":"default","target_speedup":2.0,'
        '"against":"strict","precision":"fp32","target_reached":true,"verified":true,"start":{"status":"ok","latency_ms":null,"reference_ms":null,'
        '"speedup":null,"interval":null,"speedup_default":null,"interval_default":null,"precision":"fp32",'
        '"default_is_reference":false,"contention":null},"best":{METRICS},"model":"rules","iterations":1,"turns":1,'
        '"tokens":30,"dollars":0.5,"stopped":"done","cut_short":false,"kernel":"k.py","history":null}',
    ),
    (
        ExchangeRecord(
            number=1, lane="1.0", purpose="rewrite", model="m", digest="d",
            request=Request(
                messages=(
                    Message(role="user", text="hello"),
                    Message(role="tool", tool_results=(ModelToolResult(id="1", name="tune", text="r"),)),
                ),
                tools=("tune",), settings={"temperature": 1.0},
            ),
            reply=Reply(
                tool_calls=(ModelToolCall(id="2", name="tune", arguments={"n": 4}),), finish_reason="tool_call",
                input_tokens=3, output_tokens=0,
            ),
            dollars=None, seconds=0.5, at="2025",
        ),
        '{"kind":"exchange","number":1,"lane":"1.0","purpose":"rewrite","model":"m","digest":"d","request":{'
        '"system":null,"messages":[{"role":"user","text":"hello"},{"role":"tool","tool_results":[{"id":"1",'
        '"name":"tune","text":"r"}]}],"tools":["tune"],"settings":{"temperature":1.0}},"reply":{"tool_calls":[{'
        '"id":"2","name":"tune","arguments":{"n":4}}],"finish_reason":"tool_call","input_tokens":3,"output_tokens":0},'
        '"dollars":null,"seconds":0.5,"at":"2025"}',
    ),
    (
        ExchangeRecord(number=2, lane="1.0", request=Request(messages=()), error="oops", seconds=0.5, at="2025"),
        '{"kind":"exchange","number":2,"lane":"1.0","purpose":"","model":"","digest":"","request":{"system":null,'
        '"messages":[],"tools":[],"settings":{}},"error":"oops","seconds":0.5,"at":"2025"}',
    ),
]  # fmt: skip


@pytest.mark.parametrize(("record", "line"), GOLDEN, ids=lambda record: getattr(record, "kind", ""))
def test_on_disk_it_is_as_it_always_was(record: Record, line: str) -> None:
    assert json.dumps(record.to_json(), separators=(",", ":")) == line.replace("METRICS", METRICS).replace(
        "DIGEST", kernel(1.0).digest
    )


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: f"{path.parent.parent.name}/{path.name}")
def test_a_journal_that_was_recorded_is_read_whole_and_written_the_same(path: Path) -> None:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for said, record in zip(lines, read_journal(path), strict=True):
        _same_but_for_defaults(said, record.to_json())


DEFAULTS = {"origin": "measured", "precision": "fp32", "against": "strict", "sums": 1, "taps": 1, "side_by_side": 1}


def _same_but_for_defaults(said: Any, written: Any) -> None:
    """Nothing is lost or changed; fields that there were not then have their defaults."""
    if isinstance(said, dict):
        if "capability" in said:  # a number, which has been a name since then
            said = {"architecture": f"sm_{said['capability']}", **said}
            del said["capability"]
        for name, value in said.items():
            _same_but_for_defaults(value, written[name])
        added = {name: written[name] for name in set(written) - set(said) if written[name]}
        assert added.items() <= DEFAULTS.items()
    elif isinstance(said, list):
        for record, again in zip(said, written, strict=True):
            _same_but_for_defaults(record, again)
    else:
        assert (type(said), said) == (type(written), written)


def test_there_are_recorded_journals_of_every_kind() -> None:
    assert {record.kind for path in RECORDED for record in read_journal(path)} == {
        "run", "kernel", "trial", "turn", "profile", "finished", "exchange",
    }  # fmt: skip


def test_kinds_that_are_not_known_are_passed_over_and_kept_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    others = ['{"kind":"of a later version"}', '{"no":"kind"}', '{"kind":5}']
    path.write_text("\n".join([others[0], '{"kind":"kernel","digest":"d","source":"s"}', *others[1:]]) + "\n")
    with Journal(path) as journal:
        assert journal.records == [KernelRecord(digest="d", source="s")]
        journal.append(RunRecord(problem="p"))
        assert [record.problem for record in journal.of(RunRecord)] == ["p"]
    assert len(path.read_text().splitlines()) == 5 and set(others) < set(path.read_text().splitlines())


DAMAGED = [
    ('{"kind":"kernel","digest":"d"}', "kernel record: source: Field required"),
    ('{"kind":"turn","iteration":"many","strategy":"s","improved":true}', "turn record: iteration: Input should be"),
    ('{"kind":"run","problem":5}', "run record: problem: Input should be a valid string"),
    ('{"kind":"exchange","number":1,"lane":"1.0"}', "exchange record: request: Field required"),
]


@pytest.mark.parametrize(("line", "says"), DAMAGED)
def test_a_damaged_record_is_named_with_its_line(tmp_path: Path, line: str, says: str) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_text('{"kind":"run"}\n{"kind":"later"}\n' + line + "\n")
    for reader in (read_journal, Journal):
        with pytest.raises(JournalError) as caught:
            reader(path)
        assert str(caught.value).startswith(f"{path}, line 3 is not a valid {says}")
        assert str(caught.value).endswith("; fix or remove that line") and "\n" not in str(caught.value)
    path.write_text('{"kind":"run"}\n')
    Journal(path).close()  # the one that failed holds no lock


def test_the_journals_of_the_first_version_are_read() -> None:
    """As they were before there were lanes, models, references by digest and strictness settings."""
    run = parse_record({"kind": "run", "problem": "p", "workload": "default", "kernel": "k", "device": "d"}, HERE, 1)
    assert isinstance(run, RunRecord) and (run.model, run.allow_torch) == ("rules", "")
    assert run.changed(RunRecord(problem="p", kernel="k", device="d", allow_torch="off")) == ["allow_torch"]
    metrics = {"status": "ok", "latency_ms": 1.0, "reference_ms": 2.0, "speedup": 2.0, "interval": [1.9, 2.1]}
    turn = parse_record(
        {
            "kind": "turn", "iteration": 1, "bottleneck_analysis": {"category": "memory", "evidence": ["slow"]},
            "strategy": "tile", "category": "compute", "rationale": "", "code_changes": "", "kernel": "b",
            "improved": True, "improvement": 1.0, "error": "", "evaluation_results": [metrics], "best": metrics,
        },
        HERE, 1,
    )  # fmt: skip
    assert isinstance(turn, TurnRecord)
    assert (turn.name, turn.category, turn.evidence, turn.gain) == ("1.0", "memory", ("slow",), 2.0)
    assert (turn.before, turn.attempts, turn.tokens, turn.dollars, turn.model_seconds) == (None, (), 0, 0.0, 0.0)
    finished = parse_record(
        {
            "kind": "finished", "problem": "p", "target_speedup": 2.0, "target_reached": True, "verified": True,
            "start": metrics, "best": metrics, "iterations": 1, "stopped": "done", "kernel": None, "history": None,
        },
        HERE, 1,
    )  # fmt: skip
    assert isinstance(finished, FinishedRecord) and (finished.model, finished.cut_short) == ("", False)
