"""The analysis that a model gives: how it is read, and what serves where it cannot be."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from kernelwright.agent.bottleneck import Analysis, Category
from kernelwright.agent.program.proposer import ModelProposer
from kernelwright.agent.proposer import RunEndedError
from kernelwright.core import ExchangeRecord, read_journal
from kernelwright.core.journal import of

from ...openai_server import Fail, OpenAIServer, Step, Text
from ..conversations.telling import analysis
from .stand import Stand, source, stand, textual

Run = Callable[[Sequence[Step]], ModelProposer]
Served = Callable[..., tuple[ModelProposer, OpenAIServer]]
FENCED = f"Loops swapped.\n\n```python\n{source(5.0)}```\n"
IDEA = ("threads", "the grid", "half of the cores idle", 1.8)


def analysed(tmp_path: Path, here: Stand, text: str | None) -> Analysis:
    return ModelProposer(textual(tmp_path, [Text(text)]), here.heard).analyse(here.context)


def test_an_analysis_replaces_what_the_metrics_showed(run: Run, here: Stand) -> None:
    found = run([analysis("memory", ["1 GB/s of 10"], IDEA)]).analyse(here.context)
    assert found.category is Category.MEMORY
    assert found.evidence == ("1 GB/s of 10",)
    assert found.suggestions == ("threads: the grid; half of the cores idle (expected 1.8x)",)
    assert found.floor_ms == here.context.analysis.floor_ms
    assert here.heard.failures == []


def test_a_techniques_own_colon_does_not_end_it(run: Run, here: Stand) -> None:
    found = run([analysis("memory", ["e"], ("bf16x3: split", "the loop", "faster", 2))]).analyse(here.context)
    assert found.suggestions == ("bf16x3, split: the loop; faster (expected 2x)",)


@pytest.mark.parametrize("category", ["Memory", "MEMORY", "memory-bound", "**memory**", '"memory"', "memory."])
def test_a_category_is_recognized(tmp_path: Path, here: Stand, category: str) -> None:
    assert analysed(tmp_path, here, analysis(category, ["e"], IDEA).content).category is Category.MEMORY


@pytest.mark.parametrize(
    ("written", "read"),
    [("1.8", "1.8"), ('"2x"', "2"), ('"about 1.5x"', "1.5"), ('"30%"', "1.3"), ('"1.2-1.5x"', "1.2")],
)
def test_an_expected_gain_is_read(tmp_path: Path, here: Stand, written: str, read: str) -> None:
    said = analysis("memory", ["e"], IDEA).content
    assert said is not None
    (suggestion,) = analysed(tmp_path, here, said.replace("1.8", written)).suggestions
    assert suggestion.endswith(f"(expected {read}x)")


@pytest.mark.parametrize("written", ['"large"', "null"])
def test_no_expected_gain_is_made_up(tmp_path: Path, here: Stand, written: str) -> None:
    said = analysis("memory", ["e"], IDEA).content
    assert said is not None
    (suggestion,) = analysed(tmp_path, here, said.replace("1.8", written)).suggestions
    assert suggestion == "threads: the grid; half of the cores idle"
    assert here.heard.failures == []


def test_what_an_analysis_leaves_empty_is_filled_from_the_metrics(tmp_path: Path, here: Stand) -> None:
    found = analysed(tmp_path, here, analysis("memory", []).content)
    metrics = here.context.analysis
    assert (found.category, found.evidence, found.suggestions) == (
        Category.MEMORY,
        metrics.evidence,
        metrics.suggestions,
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("It is slow.", "no category, evidence, suggestions in the reply"),
        ("[[ ## category ## ]]\nmemory\n[[ ## completed ## ]]", "no evidence, suggestions in the reply"),
        (analysis("memory or compute", ["e"], IDEA).content, "'memory or compute' is not a category"),
        (analysis("heat", ["e"], IDEA).content, "'heat' is not a category"),
        (FENCED, "no category, evidence, suggestions in the reply"),
    ],
)
def test_of_an_analysis_that_cannot_be_read_the_metrics_serve(
    tmp_path: Path, here: Stand, text: str, reason: str
) -> None:
    assert analysed(tmp_path, here, text) == here.context.analysis
    assert here.heard.failures == [f"the analysis cannot be read ({reason}); the metrics are used instead"]


def test_suggestions_that_cannot_be_read_are_reported_in_a_line(tmp_path: Path, here: Stand) -> None:
    text = "[[ ## category ## ]]\nmemory\n\n[[ ## evidence ## ]]\n[]\n\n[[ ## suggestions ## ]]\nuse threads"
    assert analysed(tmp_path, here, text) == here.context.analysis
    (told,) = here.heard.failures
    assert "\n" not in told
    assert told.startswith("the analysis cannot be read (")


def test_lanes_of_one_candidate_share_an_analysis_that_the_first_asks_for(tmp_path: Path) -> None:
    lanes = [stand(tmp_path, variant=variant, index=variant) for variant in (0, 1, 2)]
    models = textual(tmp_path, [analysis("memory", ["e"], IDEA)])
    proposer = ModelProposer(models, lanes[0].heard)
    found: dict[int, Analysis] = {}
    threads = [
        threading.Thread(target=lambda n=n: found.update({n: proposer.analyse(lanes[n].context)})) for n in (2, 1, 0)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=20)
    assert {analysis.category for analysis in found.values()} == {Category.MEMORY}
    assert len(found) == 3
    # Which thread came first is luck; a resumed run must find the exchange all the same.
    asked = [record.lane for record in of(read_journal(models.transcript.path), ExchangeRecord)]
    assert asked == ["1.0"]


def test_lanes_of_one_candidate_end_together_when_the_model_fails(served: Served, here: Stand, tmp_path: Path) -> None:
    proposer, server = served(Fail(500, "oops"))
    for lane in (here, stand(tmp_path, variant=1, index=1)):
        with pytest.raises(RunEndedError, match="the server of openai/gpt-4o failed"):
            proposer.analyse(lane.context)
    assert server.unused() == []
