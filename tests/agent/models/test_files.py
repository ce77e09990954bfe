"""``model` files:DIR`: prompts as pages, replies in files beside them."""

from __future__ import annotations

import json
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import dspy
import pytest
from kernelwright.agent.models.engines import BudgetSpentError, NoReplyError
from kernelwright.agent.models.models import REWRITE, Models
from kernelwright.agent.models.prompt_file import prompt_path
from kernelwright.agent.program.adapter import KernelAdapter

from .asking import Asked, ask

PAGES = Path(__file__).parent / "pages"
LONG_AGO = time.time() - 60


def files(tmp_path: Path, wait: bool = False) -> tuple[Asked, Path]:
    return Asked(tmp_path, f"files:{tmp_path / 'chat'}", wait=wait), tmp_path / "chat"


def reply(chat: Path, number: int, text: str | bytes) -> None:
    """A reply that was written a minute ago."""
    path = chat / f"{number:04d}.reply.md"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    os.utime(path, (LONG_AGO, LONG_AGO))


ANALYSE_REQUEST = {
    "system": "Your input fields are:\n1. `source` (str): the kernel\n\nYou find what limits it.\n\n- memory: bytes",
    "messages": [
        {"role": "user", "text": "[[ ## source ## ]]\nBLOCK = 64\nfor i in range(BLOCK):\n    ...\n\nRespond with ..."}
    ],
    "tools": [],
    "settings": {},
}
GUIDE = "## Vectorization\n\n```python\nfor i in T.vectorized(4):\n    ...\n```"
TOOLS = "- read_guide(title: string): Read a section.\n- profile(): Where the kernel stands."
TOOL_CALL = """\
[[ ## next_thought ## ]]
How is a loop vectorized?

[[ ## tool_calls ## ]]
{"tool_calls": [{"name": "read_guide", "args": {"title": "Vectorization"}}]}

[[ ## completed ## ]]
"""
ANSWER = json.dumps({"result": GUIDE, "next": "use it", "config": {"B": 64}})
RESULTS = [
    {"call_id": "1", "name": "read_guide", "value": ANSWER, "is_error": False},
    {"call_id": "2", "name": "roofline", "value": "Unknown tool: roofline", "is_error": True},
    {"call_id": "3", "name": "submit", "value": [1], "is_error": True},
]
REWRITE_REQUEST = {
    "system": "You make a kernel faster.\n\n[[ ## tool_calls ## ]]\n{tool_calls}\n",
    "messages": [
        {"role": "user", "text": "[[ ## source ## ]]\nBLOCK = 64\n\nRespond with ..."},
        {"role": "assistant", "text": TOOL_CALL},
        {"role": "user", "text": f"[[ ## tool_call_results ## ]]\n{json.dumps({'tool_call_results': RESULTS})}"},
        {"role": "user", "text": f"[[ ## tools ## ]]\n{TOOLS}\n\nRespond with ..."},
    ],
    "tools": [],
    "settings": {},
}


def test_prompts_are_pages_to_read_and_to_answer(tmp_path: Path) -> None:
    written = [prompt_path(tmp_path, "1.0", request) for request in (ANALYSE_REQUEST, REWRITE_REQUEST)]
    if os.environ.get("GOLDEN"):
        for page in written:
            (PAGES / page.name).write_bytes(page.read_bytes())
    assert [page.name for page in written] == sorted(page.name for page in PAGES.iterdir())
    for page in written:
        assert page.read_text() == (PAGES / page.name).read_text()


@pytest.mark.parametrize("line", ["[one, two]", '{"no": "results"}', '{"tool_call_results": [1]}'])
def test_what_is_listed_in_another_way_stays_as_it_is(tmp_path: Path, line: str) -> None:
    told = f"[[ ## tool_call_results ## ]]\n{line}\n"
    request = {**REWRITE_REQUEST, "messages": [{"role": "user", "text": told}]}
    assert told in prompt_path(tmp_path, "1.0", request).read_text()


def test_calls_in_a_models_own_form_are_on_the_page_too(tmp_path: Path) -> None:
    call = {"id": "1", "name": "read_guide", "arguments": {"title": "Vectorization"}}
    messages = [
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_results": [{"id": "1", "name": "read_guide", "text": ANSWER}]},
    ]
    page = prompt_path(tmp_path, "1.0", {**REWRITE_REQUEST, "messages": messages}).read_text()
    assert '# Your answer\n\nread_guide({"title": "Vectorization"})\n' in page
    assert f"# What the tools said\n\nread_guide said:\n\nresult: {GUIDE}\n\nnext: use it\n" in page


class Rewrite(dspy.Signature):  # type: ignore[misc]
    """You make a kernel faster."""

    source: str = dspy.InputField(desc="the kernel")
    kernel: str = dspy.OutputField(desc="the whole file")
    strategy: str = dspy.OutputField(desc="the change")
    rationale: str = dspy.OutputField(desc="what was changed")


def rewrite(models: Models) -> dspy.Prediction:
    """One attempt of the agent's kind: DSPy's loop of tools, text in and out."""

    def read_guide(section_title: str) -> str:
        """Read one section of the guide."""
        return json.dumps({"result": GUIDE, "section": section_title})

    with dspy.context(lm=models.lm(REWRITE, "1.0"), adapter=KernelAdapter(native=False)):
        return dspy.ReActV2(Rewrite, tools=[read_guide], max_iters=4)(source="BLOCK = 64")


def test_answers_as_the_page_describes_them_are_understood(tmp_path: Path) -> None:
    asked, chat = files(tmp_path)
    with pytest.raises(NoReplyError):
        rewrite(asked.models())
    page = (chat / "0001.prompt.md").read_text()
    assert "- read_guide(section_title: string): Read one section of the guide.\n" in page
    advice = page.partition("# How to answer")[2]
    tool_call = advice[advice.index("[[ ## next_thought") :]
    reply(chat, 1, tool_call)
    with pytest.raises(NoReplyError):
        rewrite(asked.resumed())
    page = (chat / "0002.prompt.md").read_text()
    assert '{"tool_calls": [{"name": "read_guide", "args": {"section_title": "Threads"}}]}' in page
    assert f"read_guide said:\n\nresult: {GUIDE}\n\nsection: Threads\n" in page
    form = advice[advice.index("[[ ## strategy") : advice.index("To use a tool")]
    reply(chat, 2, form.replace("\n...\n", "\nclass ModelNew: ...\n"))
    found = rewrite(asked.resumed())
    assert found.kernel == "class ModelNew: ...\n"
    assert found.strategy == "the change in one to four words"
    assert found.rationale.startswith("one or two sentences")


def test_prompts_are_numbered_and_name_their_reply(tmp_path: Path) -> None:
    asked, chat = files(tmp_path)
    models = asked.models()
    for text in ("first", "second"):
        with pytest.raises(NoReplyError):
            ask(models, text)
    assert sorted(path.name for path in chat.iterdir()) == ["0001.prompt.md", "0002.prompt.md"]
    assert "as 0002.reply.md" in (chat / "0002.prompt.md").read_text()
    (chat / "0041.prompt.md").write_text("of another run")
    with pytest.raises(NoReplyError):
        ask(models, "third")
    assert (chat / "0042.prompt.md").exists()


def test_without_waiting_it_says_what_to_write_and_how_to_go_on(tmp_path: Path) -> None:
    asked, chat = files(tmp_path)
    models = asked.models()
    with pytest.raises(NoReplyError) as caught:
        ask(models)
    assert models.explain(caught.value) == (
        f"{chat}/0001.prompt.md has no reply yet; write 0001.reply.md beside it, then run again with `resume`"
    )
    assert asked.records == []


def test_a_reply_is_taken_recorded_and_recalled(tmp_path: Path) -> None:
    asked, chat = files(tmp_path)
    with pytest.raises(NoReplyError):
        ask(asked.models())
    reply(chat, 1, "\n a tile of 64 \n")
    assert ask(asked.resumed()) == "a tile of 64"
    (record,) = asked.records
    assert (record["model"], record["reply"]["text"], record["dollars"]) == ("kernelwright/files", "a tile of 64", 0.0)
    (chat / "0001.reply.md").unlink()
    assert ask(asked.resumed()) == "a tile of 64"
    assert len(asked.records) == 1


@pytest.mark.parametrize("text", ["hello", "line\r\nend", "ünïcode", "bell \x07"])
def test_the_same_request_keeps_its_number(tmp_path: Path, text: str) -> None:
    asked, chat = files(tmp_path)
    with pytest.raises(NoReplyError):
        ask(asked.models(), text)
    for _ in range(2):
        with pytest.raises(NoReplyError, match=r"0001\.prompt\.md"):
            ask(asked.resumed(), text)
    with pytest.raises(NoReplyError, match=r"0002\.prompt\.md"):
        ask(asked.resumed(), text, lane="1.1")
    assert len(list(chat.iterdir())) == 2


@pytest.mark.parametrize("data", [b"\xef\xbb\xbfa tile of 64", b"a tile of 64\r\n"])
def test_replies_of_any_editor_are_read(tmp_path: Path, data: bytes) -> None:
    asked, chat = files(tmp_path)
    chat.mkdir()
    reply(chat, 1, data)
    assert ask(asked.models()) == "a tile of 64"


def test_a_reply_with_a_stray_byte_is_no_missing_reply(tmp_path: Path) -> None:
    asked, chat = files(tmp_path)
    chat.mkdir()
    reply(chat, 1, b"a tile of 64 \xff")
    assert ask(asked.models()) == "a tile of 64 \ufffd"


@pytest.mark.parametrize("text", ["", " \n"])
def test_an_empty_reply_is_none_yet(tmp_path: Path, text: str) -> None:
    asked, chat = files(tmp_path)
    chat.mkdir()
    reply(chat, 1, text)
    with pytest.raises(NoReplyError):
        ask(asked.models())


def test_a_reply_is_waited_for_until_it_is_settled(tmp_path: Path) -> None:
    asked, chat = files(tmp_path, wait=True)
    models = asked.models()
    written = threading.Event()

    def write_slowly() -> None:
        while not (chat / "0001.prompt.md").exists():
            time.sleep(0.01)
        with (chat / "0001.reply.md").open("w") as file:
            for piece in ("a tile", " of ", "64"):
                file.write(piece)
                file.flush()
                time.sleep(0.3)
        written.set()

    writer = threading.Thread(target=write_slowly)
    writer.start()
    assert ask(models) == "a tile of 64"
    assert written.is_set()
    writer.join()
    assert asked.told == [f"waiting for {chat}/0001.reply.md (the answer to 0001.prompt.md)"]


def test_the_time_limit_of_the_run_ends_the_waiting(tmp_path: Path) -> None:
    asked, chat = files(tmp_path, wait=True)
    models = asked.models(late=lambda: "budget of 60 seconds used up" if chat.exists() else None)
    with pytest.raises(BudgetSpentError, match="budget of 60 seconds used up"):
        ask(models)
    assert asked.records == []


def test_a_folder_that_becomes_unusable_is_reported(tmp_path: Path) -> None:
    asked, chat = files(tmp_path)
    models = asked.models()
    models.check()
    chat.rmdir()
    chat.write_text("a file now")
    with pytest.raises(dspy.LMError) as caught:
        ask(models)
    assert f"cannot use {chat}: File exists; choose another folder for `model` files:DIR" in models.explain(
        caught.value
    )


def test_lanes_side_by_side_have_pages_of_their_own(tmp_path: Path) -> None:
    asked, chat = files(tmp_path, wait=True)
    models = asked.models()
    lanes = [f"1.{index}" for index in range(3)]

    def answer() -> None:
        while len(pages := list(chat.glob("*.prompt.md"))) < len(lanes):
            time.sleep(0.01)
        for page in pages:
            lane = next(lane for lane in lanes if f"Conversation {lane}." in page.read_text())
            reply(chat, int(page.name[:4]), f"reply to {lane}")

    person = threading.Thread(target=answer)
    person.start()
    with ThreadPoolExecutor(len(lanes)) as pool:
        replies = list(pool.map(lambda lane: ask(models, "the same text", lane), lanes))
    person.join()
    assert replies == [f"reply to {lane}" for lane in lanes]
    assert sorted(path.name for path in chat.glob("*.prompt.md")) == [f"000{n}.prompt.md" for n in (1, 2, 3)]


def test_many_lanes_at_once_take_each_its_own_number(tmp_path: Path) -> None:
    asked, chat = files(tmp_path)
    models = asked.models()
    together = threading.Barrier(12)

    def write(index: int) -> None:
        together.wait()
        with pytest.raises(NoReplyError):
            ask(models, lane=f"1.{index}")

    with ThreadPoolExecutor(12) as pool:
        list(pool.map(write, range(12)))
    assert sorted(path.name for path in chat.iterdir()) == [f"{number:04d}.prompt.md" for number in range(1, 13)]
