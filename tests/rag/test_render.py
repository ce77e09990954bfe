"""Examples as text for a model: whole, within a budget."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from kernelwright.core import Hit
from kernelwright.rag.render import tokens_of, within

from .kernels import GAIN, RELU, example

LONG = example(
    "triton/long",
    title="A long one",
    before=RELU + "\n".join(f"UNUSED_{n} = {n}" for n in range(200)),
    after=RELU + "\n".join(f"UNUSED_{n} = {n + (n == 100)}" for n in range(200)),
    gain=GAIN,
)
SHORT = example("triton/short", title="A short one")
REWRITTEN = example("triton/other", before="\n".join(f"old_{n} = {n}" for n in range(300)), after=RELU)
HUGE = example("triton/huge", before=REWRITTEN.before, after=REWRITTEN.before.replace("old", "new"))
HITS = [Hit(LONG, 2.0, "near in meaning"), Hit(SHORT, 1.0, "shares words")]


def test_both_kernels_are_whole_where_they_fit() -> None:
    text = within([*HITS, Hit(REWRITTEN, 0.5, "")], 100_000)
    for worked in (LONG, SHORT, REWRITTEN):
        assert worked.story in text
    assert text.index("A long one") < text.index("A short one")
    assert "Measured: 2.00x on NVIDIA H200" in text
    assert text.count("its gain is not measured yet") == 2
    # What both share is there once; where they share little, each is there by itself.
    assert text.count("UNUSED_7 = 7") == 1
    assert "-UNUSED_100 = 100\n+UNUSED_100 = 101" in text
    assert REWRITTEN.before.rstrip() in text and REWRITTEN.after.rstrip() in text


def test_what_does_not_fit_whole_is_a_diff() -> None:
    text = within(HITS[:1], 800)
    assert "+UNUSED_100 = 101" in text and "```diff" in text
    assert "UNUSED_7 = 7" not in text


def test_then_the_kernel_after_alone() -> None:
    text = within([Hit(REWRITTEN, 1.0, "")], tokens_of(RELU) + 150)
    assert RELU.rstrip() in text and "old_1" not in text


def test_then_nothing_and_what_is_smaller_still_finds_room() -> None:
    assert within(HITS, 10) == ""
    assert within([], 1000) == ""
    alone = within([HITS[1]], 10_000)
    assert "A short one" in alone
    assert within([Hit(HUGE, 2.0, ""), HITS[1]], tokens_of(alone)) == alone


@given(st.integers(0, 6000))
def test_the_budget_is_kept(tokens: int) -> None:
    text = within([*HITS, Hit(REWRITTEN, 0.5, "")], tokens)
    assert tokens_of(text) <= tokens
    assert text.count("```") % 2 == 0


def test_a_fence_in_a_kernel_does_not_end_the_code() -> None:
    fenced = example(before=RELU + '\nTEXT = """\n```\n"""\n')
    assert "````diff" in within([Hit(fenced, 1.0, "")], 10_000)
