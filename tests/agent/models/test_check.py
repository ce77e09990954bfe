"""Models are checked before anything is measured, and a failure is reported in one line."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dspy
import pytest
from kernelwright.agent.models.choice import parse
from kernelwright.core import Budget, ModelError, OptionError

from ...openai_server import KEY, Fail, Hang, Malformed, OpenAIServer, Text
from .asking import Asked, ask


def refused(check: Callable[[], None]) -> str:
    """The one line that a user sees."""
    with pytest.raises(ModelError) as caught:
        check()
    message = str(caught.value)
    assert "\n" not in message
    assert KEY not in message
    return message


def test_a_model_that_works_is_asked_for_one_word(tmp_path: Path) -> None:
    with OpenAIServer([Text("ready")]) as server:
        asked = Asked(tmp_path, server=server)
        asked.models(watch=True).check()
    assert asked.watched == []
    (record,) = asked.records
    assert (record["purpose"], record["lane"]) == ("probe", "check.openai/gpt-4o")
    assert server.requests[0].body["messages"][-1]["content"] == "Reply with the word ready."


def test_no_reply_enters_dspys_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its cache on disk unpickles whatever lies there. A run's own transcript is JSON."""
    monkeypatch.setenv("DSPY_CACHEDIR", str(tmp_path / "cache"))
    monkeypatch.delitem(vars(dspy), "cache", raising=False)
    with OpenAIServer([Text("ready"), Text("one"), Text("two")]) as server:
        models = Asked(tmp_path, server=server).models()
        models.check()
        assert [ask(models), ask(models)] == ["one", "two"]
    assert "cache" not in vars(dspy) and not (tmp_path / "cache").exists()


def test_both_models_are_asked_and_the_same_one_once(tmp_path: Path) -> None:
    with OpenAIServer([Text("ready"), Text("ready")]) as server:
        Asked(tmp_path, "openai/o3", server, analysis=parse("openai/gpt-4o")).models().check()
    assert [request.body["model"] for request in server.requests] == ["o3", "gpt-4o"]
    with OpenAIServer([Text("ready")]) as server:
        Asked(tmp_path / "same", server=server, analysis=parse("openai/gpt-4o")).models().check()
    assert len(server.requests) == 1


def test_a_resumed_run_asks_again_since_a_key_may_have_been_withdrawn(tmp_path: Path) -> None:
    with OpenAIServer([Text("ready"), Fail(401, "no"), Text("ready")]) as server:
        asked = Asked(tmp_path, server=server)
        asked.models().check()
        assert "was refused" in refused(asked.resumed().check)
        asked.resumed().check()
    assert len(server.requests) == len(asked.records) == 3


def test_a_run_that_has_used_up_its_tokens_asks_nobody_when_it_is_resumed(tmp_path: Path) -> None:
    with OpenAIServer([Text("ready")]) as server:
        asked = Asked(tmp_path, server=server, budget=Budget(tokens=5))
        asked.models().check()
        asked.resumed().check()
    assert len(server.requests) == 1


@pytest.mark.parametrize("watch", [False, True])
def test_dollars_cannot_be_counted_where_no_price_is_known(tmp_path: Path, watch: bool) -> None:
    with OpenAIServer([Text("ready"), Text("ready"), Text("fine")]) as server:
        asked = Asked(tmp_path, "openai/my-model", server, budget=Budget(dollars=1.0))
        with pytest.raises(OptionError) as caught:
            asked.models().check()
        asked.transcript.close()
        message = "no price is known for openai/my-model, so `max_cost` cannot be kept; use `max_tokens`"
        assert str(caught.value) == message
        unlimited = Asked(tmp_path, "openai/my-model", server)
        models = unlimited.models(watch=watch)
        models.check()
        assert ask(models) == "fine"
    assert [record["dollars"] for record in unlimited.records] == [None] * 3
    assert models.transcript.spent.dollars == models.transcript.cost(["1.0"])["dollars"] == 0.0
    assert unlimited.resumed().transcript.spent.tokens


def test_dollars_are_counted_where_a_price_is_known(tmp_path: Path) -> None:
    with OpenAIServer([Text("ready")]) as server:
        asked = Asked(tmp_path, server=server, budget=Budget(dollars=1.0))
        asked.models().check()
    assert asked.records[0]["dollars"] > 0


def test_a_missing_key(tmp_path: Path) -> None:
    message = refused(Asked(tmp_path).models(environment={}).check)
    assert message == "there is no key for openai/gpt-4o; set OPENAI_API_KEY"
    message = refused(Asked(tmp_path / "2", "gemini/gemini-2.5-pro").models(environment={}).check)
    assert message == "there is no key for gemini/gemini-2.5-pro; set GEMINI_API_KEY or GOOGLE_API_KEY"


def test_a_refused_key(tmp_path: Path) -> None:
    with OpenAIServer([]) as server:
        models = Asked(tmp_path, server=server).models(
            environment={"OPENAI_API_KEY": "sk-wrong-secret-tail"}, retries=4
        )
        message = refused(models.check)
    assert message.startswith("the key for openai/gpt-4o was refused; set another OPENAI_API_KEY")
    assert "sk-wrong" not in message and "tail" not in message
    assert len(server.requests) == 1


def test_an_unknown_model(tmp_path: Path) -> None:
    with OpenAIServer([], models={"gpt-4o-mini"}) as server:
        message = refused(Asked(tmp_path, server=server).models().check)
    assert message.startswith("there is no model openai/gpt-4o; look up its name at the provider")


def test_an_account_that_cannot_pay(tmp_path: Path) -> None:
    with OpenAIServer([Fail(429, "You exceeded your quota.", code="insufficient_quota")]) as server:
        message = refused(Asked(tmp_path, server=server).models(retries=4).check)
    assert message.startswith("the account behind openai/gpt-4o cannot pay; look at its billing page")
    assert len(server.requests) == 1


def test_an_unknown_provider_says_how_to_reach_a_server_of_ones_own(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    message = refused(Asked(tmp_path, "nosuch/llama").models().check)
    assert message == "there is no provider nosuch; for a server of your own write openai/llama and `api_base` URL"
    assert capfd.readouterr() == ("", "")


def test_no_server(tmp_path: Path) -> None:
    with socket.socket() as bound:  # bound and not listening: nobody else can take the port
        bound.bind(("127.0.0.1", 0))
        base = f"http://127.0.0.1:{bound.getsockname()[1]}/v1"
        message = refused(Asked(tmp_path, api_base=base).models().check)
    assert message.startswith("the server of openai/gpt-4o failed; check `api_base` and the network, then `resume`")


def test_a_server_that_hangs_is_asked_once(tmp_path: Path) -> None:
    with OpenAIServer([Hang(30), Text("late")]) as server:
        start = time.monotonic()
        message = refused(Asked(tmp_path, server=server).models(reply_s=0.3, retries=4).check)
    assert message.startswith("openai/gpt-4o did not answer in time; go on with `resume`, or use a faster model")
    assert time.monotonic() - start < 20
    assert len(server.requests) == 1


def test_one_word_is_not_waited_for_as_long_as_a_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernelwright.agent.models.models.PROBE_S", 0.3)
    with OpenAIServer([Hang(30)]) as server:
        message = refused(Asked(tmp_path, server=server).models(reply_s=60, retries=4).check)
    assert "did not answer in time" in message


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (Malformed(b"<html>bad gateway</html>"), "openai/gpt-4o failed: "),
        (Fail(400, "bad parameter"), "openai/gpt-4o failed: bad parameter"),
        (Fail(429, "slow down", {"Retry-After": "3600"}), "openai/gpt-4o allows no more requests for the next 3600 s"),
        (Fail(503, "overloaded"), "the server of openai/gpt-4o failed; "),
        (Fail(500, "line\none  of " + "many" * 200), "the server of openai/gpt-4o failed; "),
    ],
)
def test_other_failures(tmp_path: Path, step: Any, said: str) -> None:
    with OpenAIServer([step]) as server:
        message = refused(Asked(tmp_path, server=server).models().check)
    assert message.startswith(said)
    assert len(message) < 450


def test_a_folder_for_prompts_is_made_or_its_failure_reported(tmp_path: Path) -> None:
    Asked(tmp_path, f"files:{tmp_path / 'deep' / 'chat'}").models().check()
    assert (tmp_path / "deep" / "chat").is_dir()
    (tmp_path / "file").touch()
    message = refused(Asked(tmp_path / "2", f"files:{tmp_path / 'file' / 'chat'}").models().check)
    assert message == f"cannot use {tmp_path}/file/chat: Not a directory; choose another folder for `model` files:DIR"


def test_the_command_reports_it_before_it_measures(tmp_path: Path) -> None:
    with OpenAIServer([]) as server:
        command = [sys.executable, "-m", "kernelwright", "optimize", "--kernel", "1_36", "--api-base", server.base_url]
        environment = {**os.environ, "OPENAI_API_KEY": "sk-wrong-secret-tail"}
        run = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 2
    assert "the key for openai/o3 was refused" in run.stderr
    assert "secret" not in run.stdout + run.stderr
    written = "".join(path.read_text() for path in tmp_path.rglob("*") if path.is_file())
    assert "secret" not in written and "sk-wrong" not in written
