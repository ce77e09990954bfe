"""A key reaches no transcript, no error, no log."""

from __future__ import annotations

import logging
import traceback
from pathlib import Path

import dspy
import pytest
from kernelwright.agent.models.secrets import MASK, Redactor
from kernelwright.core import ModelError

from ...openai_server import Fail, OpenAIServer, ScriptStep, Text, Tools
from .asking import Asked, ask

SECRET = "sk-proj-4f8Zq0123456789_abcdefXYZ"
ODD = "correct horse battery staple"
ENVIRONMENT = {"OPENAI_API_KEY": SECRET, "MY_PASSWORD": ODD, "HOME": "/home/someone"}


@pytest.mark.parametrize(
    "text",
    [
        f"Incorrect API key provided: {SECRET}.",
        "Incorrect API key provided: sk-proj-********fXYZ.",
        "key sk-proj-4f8Zq01234 is disabled",
        "key sk-ant-api03-AbCdEf0123456789",
        "Bearer eyJhbGciOiJIUzI1NiJ9.e30.abc",
        "?key=AIzaSyA0123456789abcdefghijklmnopqrstuv",
        "token ghp_0123456789abcdefABCDEF",
        "hf_abcdefghijklmnop",
        f"login {ODD} failed",
        "no such key: 8a7b****************c9d0",
    ],
)
def test_messages_are_masked(text: str) -> None:
    masked = Redactor(ENVIRONMENT)(text)
    assert MASK in masked
    for piece in (SECRET[8:], ODD, "fXYZ", "4f8Z", "AbCdEf", "eyJh", "SyA0", "ghp_", "hf_", "c9d0"):
        assert piece not in masked


@pytest.mark.parametrize("text", ["the task-dependent budget", "a * b ** c", "2 skipped", "/home/someone", "HOME"])
def test_other_words_are_not_masked(text: str) -> None:
    assert Redactor({**ENVIRONMENT, "SHORT_TOKEN": "a"})(text) == text


def test_records_keep_names_that_look_like_keys() -> None:
    record = {
        "text": "sk_offsets_ptr = hf_block_size_k",
        "list": [ODD, 1, None],
        "deep": {"args": {"x": f"<{SECRET}>"}},
    }
    assert Redactor(ENVIRONMENT).record(record) == {
        "text": "sk_offsets_ptr = hf_block_size_k",
        "list": [MASK, 1, None],
        "deep": {"args": {"x": f"<{MASK}>"}},
    }


@pytest.mark.parametrize(
    "steps",
    [
        [Fail(401, f"Incorrect API key provided: {SECRET}")],
        [Fail(400, f"no access for {SECRET[:12]}************{SECRET[-4:]}")],
        [Fail(403, "the organisation's key sk-other-0123456789abcdef is locked")],
        [Fail(500, f"exception in auth({SECRET!r})", {"Retry-After": "0.01"})] * 2,
        [Fail(429, f"slow down, {SECRET}", {"Retry-After": "0.01"}), Text("fine")],
        [Text(f"your key is {SECRET}")],
        [Tools([("read_guide", {"section_title": SECRET})])],
    ],
)
@pytest.mark.parametrize("watch", [False, True])
def test_a_key_is_written_nowhere(
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    steps: list[ScriptStep],
    watch: bool,
) -> None:
    caplog.set_level(logging.DEBUG)
    shown = ""
    with OpenAIServer(steps, key=SECRET) as server:
        asked = Asked(tmp_path, server=server)
        models = asked.models(environment=ENVIRONMENT, retries=1, watch=watch)
        try:
            ask(models, f"a kernel printed {ODD}")
        except dspy.LMError as error:
            shown = models.explain(error)
            assert MASK in shown
    assert server.unused() == []
    written = asked.path.read_text()
    assert written.count("\n") == 1
    for text in (written, shown, "\n".join(asked.told), caplog.text, *capfd.readouterr()):
        assert not [secret for secret in (SECRET, SECRET[:12], SECRET[-4:], ODD, "sk-other") if secret in text]


def test_a_check_that_fails_shows_no_key_in_its_traceback(tmp_path: Path) -> None:
    refusal = Fail(401, f"Incorrect API key provided: {SECRET}")
    with OpenAIServer([refusal], key=SECRET) as server, pytest.raises(ModelError) as caught:
        Asked(tmp_path, server=server).models(environment=ENVIRONMENT).check()
    assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_what_was_masked_is_still_recalled(tmp_path: Path) -> None:
    with OpenAIServer([Text("fine")], key=SECRET) as server:
        asked = Asked(tmp_path, server=server)
        assert ask(asked.models(environment=ENVIRONMENT), f"a kernel printed {ODD}") == "fine"
        assert ask(asked.resumed(environment=ENVIRONMENT), f"a kernel printed {ODD}") == "fine"
    assert len(server.requests) == 1
