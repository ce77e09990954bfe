"""Records of every kind, as hypothesis draws them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from kernelwright.core import (
    Config,
    Evaluation,
    EvaluationSummary,
    ExchangeRecord,
    FinishedRecord,
    KernelRecord,
    Metrics,
    PriorRecord,
    ProfileRecord,
    Record,
    Rejection,
    RunRecord,
    SecondWorkload,
    Status,
    ToolCall,
    Trial,
    TurnRecord,
)
from kernelwright.core.exchange_record import Message, ModelToolCall, ModelToolResult, Reply, Request
from kernelwright.core.turn_record import AnalysisRecord, AttemptRecord

from ..fakes import PROFILE, evaluation, kernel

TEXT = st.text(max_size=8)
NUMBER = st.floats(allow_nan=False, allow_infinity=False)
TIME = st.none() | st.floats(0, 1e6, exclude_min=True)
COUNT = st.integers(0, 10**6)
STATUS = st.sampled_from(Status)
VALUE = st.integers() | NUMBER | st.booleans() | TEXT
CONFIG = st.dictionaries(TEXT, VALUE, max_size=3)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | NUMBER | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)
OBJECT = st.dictionaries(TEXT, JSON, max_size=3)


def tuples(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(inner, max_size=3).map(tuple)


def built(kind: type[Any], **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Not `st.builds`, which would add fields by their names on disk."""
    return st.fixed_dictionaries(fields).map(lambda drawn: kind(**drawn))


TEXTS = tuples(TEXT)
INTERVAL = st.none() | st.tuples(NUMBER, NUMBER)
PRECISION = st.sampled_from(["fp32", "default"])
AGAINST = st.sampled_from(["strict", "default", "compile"])
METRICS: dict[str, Any] = {
    "status": STATUS,
    "latency_ms": TIME,
    "reference_ms": TIME,
    "speedup": TIME,
    "interval": INTERVAL,
    "speedup_default": TIME,
    "interval_default": INTERVAL,
    "speedup_compile": TIME,
    "interval_compile": INTERVAL,
    "precision": PRECISION,
    "default_is_reference": st.booleans(),
    "contention": TIME,
}
SUMMARY = built(
    EvaluationSummary,
    **METRICS,
    config=CONFIG,
    max_abs_error=TIME,
    compile_s=TIME,
    message=TEXT,
    rejection=st.none() | built(Rejection, rule=st.just("torch-operator"), where=TEXT, why=TEXT),
    error_fp64=TIME,
    deterministic=st.none() | st.booleans(),
    distributions=TEXTS,
    trivial_outputs=TEXTS,
    baselines_ms=st.dictionaries(TEXT, NUMBER, max_size=2),
    second_workload=st.none() | built(SecondWorkload, sizes=OBJECT, status=STATUS, message=TEXT),
    telemetry=st.dictionaries(TEXT, NUMBER, max_size=2),
    stages_s=st.dictionaries(TEXT, NUMBER, max_size=2),
)


def _evaluation(config: dict[str, Any], result: float | str, contention: float | None) -> Evaluation:
    return evaluation(kernel(1.0), Config(config), result, None if isinstance(result, str) else contention)


EVALUATION = st.builds(
    _evaluation,
    st.dictionaries(TEXT, st.integers() | st.booleans() | TEXT, max_size=2),
    st.floats(1e-6, 1e6) | st.sampled_from(["timeout", "wrong_value", "compile_error"]),
    TIME,
)
CALLS = tuples(built(ModelToolCall, id=TEXT, name=TEXT, arguments=OBJECT))
RESULTS = tuples(built(ModelToolResult, id=TEXT, name=TEXT, text=TEXT))
PARTS: dict[str, Any] = {"text": st.none() | TEXT, "tool_calls": CALLS, "tool_results": RESULTS}
REQUEST = built(
    Request,
    system=st.none() | TEXT,
    messages=tuples(built(Message, role=TEXT, **PARTS)),
    tools=TEXTS,
    settings=OBJECT,
)
REPLY = built(
    Reply, **PARTS, finish_reason=st.none() | TEXT, input_tokens=st.none() | COUNT, output_tokens=st.none() | COUNT
)
ATTEMPT = built(AttemptRecord, strategy=TEXT, kernel=st.none() | TEXT, error=TEXT, statuses=tuples(STATUS))
TOOL_CALL = built(ToolCall, name=TEXT, arguments=OBJECT, result=TEXT, ok=st.booleans(), seconds=NUMBER, trials=COUNT)
ANALYSIS = built(
    AnalysisRecord, category=TEXT, ranking=TEXTS, evidence=TEXTS, tier=TEXT, performance=TEXT, suggestions=TEXTS,
    work=TEXT, latency_ms=TIME, floor_ms=TIME,
)  # fmt: skip

KINDS: dict[type[Any], st.SearchStrategy[Any]] = {
    RunRecord: built(
        RunRecord, problem=TEXT, reference=TEXT, sizes=TEXT, kernel=TEXT, device=TEXT, allow_torch=TEXT, graph=TEXT,
        precision=PRECISION, against=AGAINST, backend=TEXT, model=TEXT,
    ),
    KernelRecord: built(KernelRecord, digest=TEXT, source=TEXT),
    Trial: built(Trial, origin=TEXT, evaluation=EVALUATION, seconds=st.floats(0, 1e6), at=TEXT),
    TurnRecord: built(
        TurnRecord, number=COUNT, lane=COUNT, analysis=ANALYSIS, suggestions=TEXTS, strategy=TEXT,
        proposal_category=TEXT, rationale=TEXT, before=st.none() | TEXT, kernel=st.none() | TEXT, diff=TEXT,
        improved=st.booleans(), improvement=NUMBER, error=TEXT, attempts=tuples(ATTEMPT), evaluations=tuples(SUMMARY),
        metrics=st.none() | SUMMARY, tool_calls=tuples(TOOL_CALL),
        cost=st.dictionaries(TEXT, COUNT | NUMBER, max_size=3),
    ),
    PriorRecord: built(
        PriorRecord,
        gains=st.dictionaries(TEXT, st.dictionaries(TEXT, st.floats(0, 100), max_size=2), max_size=2),
    ),
    ProfileRecord: built(
        ProfileRecord, profile=st.floats(0, 1e15).map(lambda flops: PROFILE.model_copy(update={"flops": flops}))
    ),
    FinishedRecord: built(
        FinishedRecord, problem=TEXT, device=TEXT, backend=TEXT, workload=TEXT, target_speedup=NUMBER,
        against=AGAINST, precision=PRECISION, target_reached=st.booleans(), verified=st.booleans(),
        start=built(Metrics, **METRICS), best=built(Metrics, **METRICS), model=TEXT, iterations=COUNT, turns=COUNT,
        tokens=COUNT, dollars=NUMBER,
        stopped=TEXT, cut_short=st.booleans(), kernel=st.none() | TEXT, history=st.none() | TEXT,
    ),
    ExchangeRecord: built(
        ExchangeRecord, number=COUNT, lane=TEXT, purpose=TEXT, model=TEXT, digest=TEXT, request=REQUEST,
        reply=st.none() | REPLY, dollars=st.none() | NUMBER, error=TEXT, seconds=st.none() | NUMBER, at=TEXT,
    ),
}  # fmt: skip


def records() -> st.SearchStrategy[Record]:
    """Any record."""
    return st.one_of(*KINDS.values())
