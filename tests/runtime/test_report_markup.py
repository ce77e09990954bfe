"""No text of a kernel, a turn or a model becomes markup in the page of a run."""

from __future__ import annotations

from pathlib import Path

from ..agent.history.recorded import TRANSCRIPT, Record, each
from .report_page import ELEMENTS, EVIL, page_of


def spoil(value: object) -> object:
    """Every free text of a record, with markup in it."""
    if isinstance(value, str):
        return value + EVIL
    if isinstance(value, list):
        return [spoil(item) for item in value]
    if isinstance(value, dict):
        return {key: spoil(item) for key, item in value.items()}
    return value


def test_no_text_of_a_kernel_or_a_turn_becomes_markup(tmp_path: Path) -> None:
    texts = ("strategy", "category", "rationale", "kernel", "before", "code_changes", "error", "suggestions",
             "bottleneck_analysis", "tool_calls")  # fmt: skip

    def spoiled(records: list[Record]) -> list[Record]:
        for record in records:
            if record["kind"] == "turn":
                record |= {name: spoil(record[name]) for name in texts}
                record["attempts"] = [
                    spoil(attempt) | {"statuses": attempt["statuses"]} for attempt in record["attempts"]
                ]
                record["best"]["config"] = {EVIL: EVIL}
            if record["kind"] == "trial":
                record["origin"] += EVIL
                record["evaluation"]["message"] += EVIL
                record["evaluation"]["config"] = {EVIL: EVIL}
                record["evaluation"]["environment"] |= {EVIL: EVIL, "device": EVIL}
            if record["kind"] == "run":
                record |= {"model": EVIL, "problem": EVIL, "sizes": repr([(EVIL, EVIL)])}
            if record["kind"] == "finished":
                record |= {"stopped": EVIL, "workload": EVIL, "kernel": EVIL}
        return records

    page = page_of(tmp_path, change=spoiled)
    assert page.elements <= ELEMENTS
    assert not [name for _, name, _ in page.attributes if name.startswith("on")]
    assert "{{ 7*7 }}" in page.text
    assert page.text.count("<script>alert(1)</script>") > 50


def test_no_text_of_an_exchange_becomes_markup(tmp_path: Path) -> None:
    def spoiled(record: Record) -> None:
        role = [message.pop("role") for message in record["request"]["messages"]]
        record["request"] = spoil(record["request"])
        for message, was in zip(record["request"]["messages"], role, strict=True):
            message["role"] = was
        record["reply"] = spoil(record["reply"]) | {"input_tokens": 1, "output_tokens": 1}
        record |= {"purpose": EVIL, "model": EVIL}

    page = page_of(tmp_path, TRANSCRIPT, each(spoiled, "exchange"))
    assert page.elements <= ELEMENTS
    assert not [name for _, name, _ in page.attributes if name.startswith("on")]
    assert page.text.count("<script>alert(1)</script>") > 50
