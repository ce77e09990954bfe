"""The page of a run: what it shows, and that it needs nothing else."""

from __future__ import annotations

from pathlib import Path

import kernelwright
import pytest
from kernelwright.commands.report import NOTHING, TIMES
from kernelwright.core import Config, Journal, KernelwrightError, RunRecord, Trial

from ..agent.history.recorded import RUN, TRANSCRIPT, Record, copied, each
from ..fakes import evaluation, kernel
from .report_page import ELEMENTS, Page, page_of, report


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Page:
    return page_of(tmp_path_factory.mktemp("report"))


def test_the_summary(page: Page) -> None:
    for said in (
        "level1/1_36 36_RMSNorm_", "AMD EPYC, 2 cores", "10.67 → 1.746 ms",
        "Target of 3x against the reference not reached.", "eager PyTorch, fp32 in fp32",
        "timed in two runs", "1.238x [1.158, 1.324], start 0.173x", "14 trials", "$0.1018",
        "34,421 tokens, 8 exchanges", "2 iterations done", "torch 2.13.0+cpu", "tilelang 0.1.15", "openai/gpt-4o",
        "cpu: batch_size 16, dim1 64, dim2 64", "checked and timed again in a fresh process",
    ):  # fmt: skip
        assert said in page.text, said


def test_the_turns(page: Page) -> None:
    for said in (
        "Turn 1 hoist the reciprocal root", "The fastest so far", "Bottleneck: compute", "half of the cores idle",
        "hoist invariants: the second loop over c", "The factor must be the reciprocal",
        "wrong_value: 4179162 of 4194304 elements differ", "2.613 ms", "0.655x[0.596, 0.728]",
        "Turn 2 split the samples over threads", "tune 16.2 s, 4 trials",
    ):  # fmt: skip
        assert said in page.text, said
    assert {"turn-1.0", "turn-2.0"} <= set(page.values("id"))
    added = [line for line in page.within("pre").splitlines() if line.startswith("+")]
    assert "+                sum_square[p] = 1.0 / T.sqrt(sum_square[p] / C + eps)" in added
    assert page.values("class").count("add") == len([line for line in added if line])


def test_prompts_tools_and_replies_are_folded_away(page: Page) -> None:
    folded = page.within("details")
    for said in ("Your input fields are", "[[ ## category ## ]]", "compute a root once per row"):
        assert said in folded, said
    assert '{"BLOCK_P": [128, 256, 512, 1024]}' in folded
    assert "write these values into the constants and submit" in folded
    assert "open" not in {name for tag, name, _ in page.attributes if tag == "details"}


def test_the_plots_are_drawn_in_the_colours_of_the_page(page: Page) -> None:
    drawn = page.within("svg")
    for said in ("median time of a call, ms", "best so far", "final check", "failed", "GFLOP/s", "copy 33.03 GB/s"):
        assert said in drawn, said
    assert "best 1.75 ms" in drawn and "start 10.7 ms" in drawn and "floor 1.02 ms" in drawn
    styles = " ".join(
        value for tag, name, value in page.attributes if name == "style" and tag in {"path", "text", "use"}
    )
    assert "var(--accent)" in styles and "#" not in styles.replace("url(#", "")
    assert "prefers-color-scheme: dark" in page.source


def test_the_page_needs_nothing_else(page: Page) -> None:
    assert page.elements <= ELEMENTS
    assert "src" not in {name for _, name, _ in page.attributes}
    ids = page.values("id")
    assert len(ids) == len(set(ids))
    links = [value for name in ("href", "xlink:href") for value in page.values(name)]
    assert links and {link[1:] for link in links} <= set(ids) and all(link.startswith("#") for link in links)
    assert "@import" not in page.source and "://" not in page.within("style") and "url(" not in page.within("style")
    assert not [value for _, _, value in page.attributes if "://" in value]
    assert "default-src 'none'; style-src 'unsafe-inline'" in page.values("content")


def test_a_reply_with_half_a_character_can_be_written(tmp_path: Path) -> None:
    page = page_of(tmp_path, TRANSCRIPT, each(lambda row: row["reply"].update(text="half \ud83d of one"), "exchange"))
    assert "half ? of one" in page.text


def test_an_exchange_and_a_tool_that_failed(tmp_path: Path) -> None:
    def fail(records: list[Record]) -> list[Record]:
        del records[-1]["reply"]
        records[-1]["error"] = "the server answered 503"
        return records

    assert "the server answered 503" in page_of(tmp_path, TRANSCRIPT, fail).within("details")

    def refuse(turn: Record) -> None:
        for call in turn["tool_calls"]:
            call |= {"ok": False, "result": "no JSON, but words"}

    folded = page_of(tmp_path, change=each(refuse, "turn")).within("details")
    assert "failed" in folded and "no JSON, but words" in folded


def test_a_run_that_was_cut_off(tmp_path: Path) -> None:
    page = page_of(tmp_path, change=lambda records: records[:5])
    assert "Not finished. The metrics are those of the trials so far." in page.text
    assert "Exchanges outside finished turns" in page.text
    assert "svg" in page.elements
    only_begun = page_of(tmp_path, change=lambda records: records[:1])
    assert "not timed" in only_begun.text
    assert "Turn 1" not in only_begun.text


def test_a_run_by_the_rules_that_others_disturbed(tmp_path: Path) -> None:
    def disturb(records: list[Record]) -> list[Record]:
        for record in records:
            if record["kind"] == "trial":
                record["evaluation"]["contention"] = 1.2
            if record["kind"] == "turn":
                record["best"]["contention"] = 1.2
            if record["kind"] == "finished":
                record["best"]["contention"] = 1.2
            if record["kind"] in ("run", "finished"):
                record["model"] = "rules"
        return records

    copied(tmp_path, change=disturb)
    (tmp_path / TRANSCRIPT).unlink()
    report(tmp_path, tmp_path / "page.html")
    page = Page((tmp_path / "page.html").read_text())
    assert "the built-in rules" in page.text
    assert "Other processes kept 1.2 cores busy meanwhile: its time is not to be trusted." in page.text
    assert "disturbed by others" in page.within("svg")


def test_a_reference_without_arithmetic_has_no_roofline(tmp_path: Path) -> None:
    page = page_of(tmp_path, change=each(lambda row: row["profile"].update(flops=0.0), "profile"))
    assert "Convergence." in page.text and "Roofline." not in page.text


def test_what_packing_weights_takes_is_said(tmp_path: Path) -> None:
    def change(record: Record) -> None:
        record["best"].update(replay={"replayed": True, "reason": "", "steps": ["launch  a"]}, packing_ms=0.3149)

    page = page_of(tmp_path, change=each(change, "finished"))
    assert "Its weights are packed once: that takes 0.31 ms and is no part of a call." in page.text


def test_the_page_is_written_beside_the_journal(tmp_path: Path) -> None:
    journal = copied(tmp_path)
    result = report(journal)
    path = tmp_path / "report_36_RMSNorm__tilelang_cpu.html"
    assert result.to_json() == {"report": str(path)}
    first = path.read_bytes()
    report(journal)
    assert path.read_bytes() == first


def test_mistakes(tmp_path: Path) -> None:
    journal = copied(tmp_path)
    before = journal.read_bytes()
    for run, output, says in (
        (tmp_path / "nowhere", None, "there is no"),
        (RUN, tmp_path, "is a folder; name a file"),
        (journal, journal, "which the report would overwrite"),
        (RUN, journal / "page.html", "cannot write"),
    ):
        with pytest.raises(KernelwrightError, match=says):
            report(run, output)
    assert journal.read_bytes() == before


def test_each_change_of_a_batch_is_shown_with_its_parameters_time_and_gain(tmp_path: Path) -> None:
    attempts: list[Record] = [
        {"strategy": "split-grid", "kernel": "k", "config": {"THREADS": 2}, "latency_ms": 2.5, "gain": 1.75},
        {"strategy": "<licm>", "kernel": "k", "error": "timeout: slow", "gain": 0.0},
    ]
    page = page_of(tmp_path, change=each(lambda record: record.update(attempts=attempts), "turn"))
    cells = page.within("td").split("\n")
    for row in (["split-grid", "THREADS=2", "2.500 ms", f"1.750{TIMES}"], ["<licm>", NOTHING, "failed"]):
        at = cells.index(row[0])
        found = [cell for cell in cells[at : at + 8] if cell.strip()]
        assert found[: len(row)] == row


@pytest.mark.parametrize(
    ("beside", "said"),
    [
        ("slower", "It is slower than torch.compile, timed interleaved: 0.900x."),
        ("faster", "It is faster than torch.compile, timed interleaved: 0.900x."),
        ("as fast", "It is as fast as torch.compile, timed interleaved: 0.900x."),
        ("not compiled", "torch.compile does not compile the reference"),
        (None, ""),
    ],
)
def test_how_the_result_stands_to_torch_compile_is_said(tmp_path: Path, beside: str | None, said: str) -> None:
    def change(record: Record) -> None:
        record["best"].update(speedup_compile=0.9, interval_compile=[0.88, 0.92])
        if beside is not None:
            record["beside_compile"] = beside

    page = page_of(tmp_path, change=each(change, "finished"))
    assert said in page.text if said else "than torch.compile, which" not in page.text


def test_a_search_has_a_page_too(tmp_path: Path) -> None:
    """Of a journal of 'tune': the unchanged kernel and the fastest, as they were compared at the end."""
    start = kernel(8.0, BLOCK=2)
    made = (
        ("search", {"BLOCK": 4}, 9.0),
        ("search", {"BLOCK": 8}, 5.0),
        ("final", {}, 8.0),
        ("final", {"BLOCK": 8}, 4.0),
    )
    with Journal(tmp_path / "journal.jsonl") as journal:
        journal.append(RunRecord(problem="level1/1_1", kernel=start.digest, device="test", backend="tilelang_cpu"))
        for origin, config, latency in made:
            found = evaluation(start, Config(config), latency)
            journal.append(Trial(origin=origin, evaluation=found, seconds=1.0, at="2026-01-01T00:00:00+00:00"))
    result = kernelwright.report(tmp_path / "journal.jsonl")
    text = result.page.read_text()
    assert "A search of the kernel's constants" in text and "Not finished" not in text
    assert "8.000 &rarr; 4.000 <small>ms</small>" in text and "2.00 times as fast as the start" in text
