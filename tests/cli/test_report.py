"""The page of a run: what it shows, that it needs nothing else, and that no text of a model becomes markup."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path

import pytest
from click.testing import Result
from kernelwright.cli.main import app
from kernelwright.cli.report import TIMES
from typer.testing import CliRunner

from ..agent.history.recorded import JOURNAL, RUN, TRANSCRIPT, Change, Record, copied, each
from .commands import refused_here

VOID = {"meta", "br"}
ELEMENTS = {
    *("html", "head", "meta", "title", "style", "body", "header", "main", "section", "h1", "h2", "h3", "p", "div"),
    *("span", "b", "strong", "small", "br", "a", "code", "pre", "ul", "ol", "li", "dl", "dt", "dd", "details"),
    *("summary", "table", "thead", "tbody", "tr", "th", "td", "figure", "figcaption"),
    *("svg", "defs", "g", "path", "use", "text", "clippath", "rect"),
}
"""All that a page is made of. Scripts, images, links and frames are not among them."""


class Page(HTMLParser):
    """What a browser would make of a page, as far as the tests ask."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.source = text
        self.attributes: list[tuple[str, str, str]] = []
        self.texts: list[tuple[tuple[str, ...], str]] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if not attrs:
            self.attributes.append((tag, "", ""))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append((tuple(self.open), data))

    @property
    def elements(self) -> set[str]:
        return {tag for tag, _, _ in self.attributes}

    @property
    def text(self) -> str:
        """With single spaces, and the sign of multiplication as an x."""
        return " ".join("".join(text for _, text in self.texts).split()).replace(TIMES, "x")

    def within(self, element: str) -> str:
        return "\n".join(text for path, text in self.texts if element in path)

    def values(self, attribute: str) -> list[str]:
        return [value for _, name, value in self.attributes if name == attribute]


def report(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["report", *map(str, arguments)])


def page_of(folder: Path, name: str = JOURNAL, change: Change = lambda records: records) -> Page:
    """The page of the recorded run with one of its files changed."""
    copied(folder, name, change)
    run = report(folder, "--output", folder / "page.html")
    assert run.exit_code == 0, run.output
    return Page((folder / "page.html").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Page:
    return page_of(tmp_path_factory.mktemp("report"))


def test_the_summary(page: Page) -> None:
    for said in (
        "level1/1_36 36_RMSNorm_", "AMD EPYC, 2 cores", "Target of 3x not reached.", "10.67 → 1.746 ms",
        "6.11 times as fast as the start", "1.238x [1.158, 1.324], start 0.173x", "14 trials", "$0.1018",
        "34,421 tokens, 8 exchanges", "2 iterations done", "torch 2.13.0+cpu", "tilelang 0.1.15", "openai/gpt-4o",
        "cpu: batch_size 16, dim1 64, dim2 64", "checked and timed again in a fresh process",
    ):  # fmt: skip
        assert said in page.text, said


def test_the_turns(page: Page) -> None:
    for said in (
        "Turn 1 hoist the reciprocal root", "4.08 times as fast", "Bottleneck: compute", "half of the cores idle",
        "hoist invariants: the second loop over c", "The factor must be the reciprocal",
        "wrong_value: 4179162 of 4194304 elements differ", "2.613 ms", "0.655x[0.643, 0.668]",
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


EVIL = "</pre></details></style><script>alert(1)</script><img src=x onerror=alert(1)> & {{ 7*7 }} \"'"


def spoil(value: object) -> object:
    """Every free text of a record, with markup in it."""
    if isinstance(value, str):
        return value + EVIL
    if isinstance(value, list):
        return [spoil(one) for one in value]
    if isinstance(value, dict):
        return {key: spoil(one) for key, one in value.items()}
    return value


def test_no_text_of_a_kernel_or_a_turn_becomes_markup(tmp_path: Path) -> None:
    texts = ("strategy", "category", "rationale", "kernel", "before", "code_changes", "error", "suggestions",
             "bottleneck_analysis", "tool_calls")  # fmt: skip

    def spoiled(records: list[Record]) -> list[Record]:
        for record in records:
            if record["kind"] == "turn":
                record |= {name: spoil(record[name]) for name in texts}
                record["attempts"] = [spoil(one) for one in record["attempts"]]
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


def test_a_reply_with_half_a_character_can_be_written(tmp_path: Path) -> None:
    page = page_of(tmp_path, TRANSCRIPT, each(lambda one: one["reply"].update(text="half \ud83d of one"), "exchange"))
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
    assert report(tmp_path, "--output", tmp_path / "page.html").exit_code == 0
    page = Page((tmp_path / "page.html").read_text())
    assert "the built-in rules" in page.text
    assert "Other processes kept 1.2 cores busy meanwhile: its time is not to be trusted." in page.text
    assert "disturbed by others" in page.within("svg")


def test_a_reference_without_arithmetic_has_no_roofline(tmp_path: Path) -> None:
    page = page_of(tmp_path, change=each(lambda one: one["profile"].update(flops=0.0), "profile"))
    assert "Convergence." in page.text and "Roofline." not in page.text


def test_the_page_is_written_beside_the_journal(tmp_path: Path) -> None:
    journal = copied(tmp_path)
    run = report(journal, "--json")
    path = tmp_path / "report_36_RMSNorm__tilelang_cpu.html"
    assert json.loads(run.stdout) == {"report": str(path)}
    first = path.read_bytes()
    assert report(journal).stdout == f"report: {path}\n"
    assert path.read_bytes() == first


def test_mistakes_are_told_in_a_line(tmp_path: Path) -> None:
    journal = copied(tmp_path)
    before = journal.read_bytes()
    assert "there is no" in refused_here(report(tmp_path / "nowhere"))
    assert "is a folder; name a file" in refused_here(report(RUN, "--output", tmp_path))
    assert "which the report would overwrite" in refused_here(report(journal, "--output", journal))
    assert "cannot write" in refused_here(report(RUN, "--output", journal / "page.html"))
    assert journal.read_bytes() == before
