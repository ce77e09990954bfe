"""The server within this process: its tools, its errors, its limits, its runs."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from kernelwright.mcp_server import workshop as process
from kernelwright.mcp_server.messages import Done
from kernelwright.mcp_server.server import IDLE_S, INSTRUCTIONS, Server, security
from mcp import Client, MCPError

from .serving import refused, server

TOOLS = {
    *("evaluate", "profile", "tune", "optimize", "list_problems", "list_slow"),
    *("search_examples", "read_guide", "explain_error"),
}


def asking(served: Server, ask: Callable[[Client], Awaitable[Any]]) -> Any:
    """What a client of the server learns."""

    async def run() -> Any:
        async with Client(served) as client:
            return await ask(client)

    return anyio.run(run)


def call(served: Server, tool: str, **arguments: Any) -> Any:
    return asking(served, lambda client: client.call_tool(tool, arguments))


def unreadable(served: Server, uri: str) -> str:
    """Why a resource cannot be read."""

    async def ask(client: Client) -> str:
        with pytest.raises(MCPError) as error:
            await client.read_resource(uri)
        return str(error.value)

    found: str = asking(served, ask)
    return found


def test_instructions_are_short() -> None:
    assert len(INSTRUCTIONS) < 1000


def test_tools_have_one_line_and_typed_results(tmp_path: Path) -> None:
    tools = asking(server(tmp_path), lambda client: client.list_tools()).tools
    assert {tool.name for tool in tools} == TOOLS
    for tool in tools:
        assert tool.description and "\n" not in tool.description and len(tool.description) <= 120
        for name, field in tool.input_schema.get("properties", {}).items():
            assert field.get("description"), f"{tool.name}: {name}"
        assert not re.search(r"(?<![\w-])--[a-z]", str(tool.input_schema) + tool.description), "no flags"
        schema = tool.output_schema
        assert schema["type"] == "object" and schema["description"]
        assert all(
            field.get("type") or field.get("anyOf") or field.get("$ref") for field in schema["properties"].values()
        )


def test_figures_of_results_name_their_unit(tmp_path: Path) -> None:
    for tool in asking(server(tmp_path), lambda client: client.list_tools()).tools:
        for name, field in tool.output_schema["properties"].items():
            if name.endswith("_ms"):
                assert "illiseconds" in field["description"], f"{tool.name}: {name}"


@pytest.mark.parametrize(
    ("tool", "arguments", "says"),
    [
        ("evaluate", {"kernel": "../x.py"}, "is outside of"),
        ("evaluate", {"kernel": "1_23", "problem": "/etc/passwd"}, "`problem` /etc/passwd is outside of"),
        ("evaluate", {"kernel": "1_23", "seconds": 1e6}, "`seconds` must be above 0 and at most 600"),
        ("evaluate", {"kernel": "1_23", "seconds": 0}, "`seconds` must be above 0"),
        ("evaluate", {}, "`kernel`: Field required"),
        ("evaluate", {"kernel": "1_23", "backend": "cuda"}, "`backend`: Input should be"),
        ("profile", {"kernel": "ops.py::f"}, "there is no file ops.py"),
        ("evaluate", {"kernel": "1_999"}, "`list_problems` shows the shipped kernels"),
        ("tune", {"kernel": "1_1", "trials": 201}, "`trials` must be above 0 and at most 200"),
        ("optimize", {"kernel": "1_1", "trials": -1}, "`trials` must be above 0"),
        ("list_slow", {"folder": "/"}, "`folder` / is outside of"),
        ("list_slow", {"folder": "none"}, "there is no folder none"),
        ("read_guide", {"backend": "triton", "section": "zzz"}, "no section 'zzz' in the guide 'triton'"),
        ("explain_error", {}, "no failure of any kernel is known here; call evaluate first"),
        ("search_examples", {"query": "x", "k": 9}, "`k`: Input should be less than or equal to 5"),
    ],
)
def test_a_mistake_is_one_line(tmp_path: Path, tool: str, arguments: dict[str, Any], says: str) -> None:
    assert says in refused(call(server(tmp_path), tool, **arguments))


def test_limits_are_the_owner_s(tmp_path: Path) -> None:
    served = server(tmp_path, max_trials=5, max_seconds=2.0)
    assert "at most 5 on this server" in refused(call(served, "tune", kernel="1_1", trials=6))
    assert "at most 2 on this server" in refused(call(served, "evaluate", kernel="1_1", seconds=3))


def test_a_guide(tmp_path: Path) -> None:
    titles = call(server(tmp_path), "read_guide", backend="tilelang_cpu").structured_content
    assert "Threads" in titles["sections"] and titles["text"] == ""
    page = call(server(tmp_path), "read_guide", backend="tilelang_cpu", section="threads").structured_content
    assert page["section"] == "Threads" and page["text"].startswith("## Threads")


def scripted(monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    """Let jobs answer with a line."""
    monkeypatch.setattr(process, "COMMAND", (sys.executable, "-c", f"input(); print({line!r})"))


def test_a_failed_job_is_one_line_and_leaves_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    served = server(tmp_path)
    scripted(monkeypatch, '{"kind": "broken", "text": "TypeError: x"}')
    assert "internal error of kernelwright: TypeError: x" in refused(call(served, "tune", kernel="1_1"))
    scripted(monkeypatch, '{"kind": "refused", "message": "no space", "hint": "name constants"}')
    assert refused(call(served, "tune", kernel="1_1")) == "error: no space; name constants"
    assert list((tmp_path / "results" / "mcp").glob("[!.]*")) == []


def test_a_call_that_takes_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "COMMAND", (sys.executable, "-c", "import sys; sys.stdin.read()"))
    assert "evaluate was ended after 0.2 s" in refused(call(server(tmp_path), "evaluate", kernel="1_1", seconds=0.2))


def test_one_job_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second call waits for the device, and says so; its job sees the first one's file gone."""
    busy, done = tmp_path / "busy", Done(result={}).model_dump_json()
    program = (
        f"import os, time; input(); f = {str(busy)!r}; os.close(os.open(f, os.O_CREAT | os.O_EXCL)); time.sleep(0.3); "
        f"os.remove(f); print({done!r})"
    )
    monkeypatch.setattr(process, "COMMAND", (sys.executable, "-c", program))
    served, said = server(tmp_path), []

    async def report(progress: float, total: float | None, text: str) -> None:
        said.append(text)

    async def both() -> None:
        async with anyio.create_task_group() as group:
            for _ in range(2):
                group.start_soon(served._workshop.do, "evaluate", {}, 10.0, report)

    anyio.run(both)
    assert said == ["waiting for the device: another call has it"]


def test_runs_as_resources(tmp_path: Path) -> None:
    served = server(tmp_path)
    run = served._workshop.runs.begin("tune", "kernels/my kernel.py")
    (run.folder / "journal.jsonl").write_text("{}\n")
    (tmp_path / "fast.py").write_text("# fast\n")
    run.end("finished", {"journal": "results/mcp/tune-my-kernel-1/journal.jsonl", "saved_kernel": "fast.py"})

    async def look(client: Client) -> dict[str, str]:
        uris = [resource.uri for resource in (await client.list_resources()).resources]
        return {uri: (await client.read_resource(uri)).contents[0].text for uri in uris if not uri.endswith("report")}

    found = asking(served, look)
    base = "kernelwright://runs"
    assert list(found) == [base, *(f"{base}/tune-my-kernel-1/{kind}" for kind in ("history", "kernel", "result"))]
    assert found[f"{base}/tune-my-kernel-1/kernel"] == "# fast\n"
    assert json.loads(found[base])[0]["state"] == "finished"


@pytest.mark.parametrize("saved", ["/etc/passwd", "../outside.py"])
def test_a_run_s_record_cannot_name_what_is_outside(tmp_path: Path, saved: str) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "outside.py").write_text("secret")
    served = server(tmp_path / "root")
    run = served._workshop.runs.begin("tune", "k.py")
    (run.folder / "x").touch()
    run.end("finished", {"saved_kernel": saved})
    assert "is outside of" in unreadable(served, f"kernelwright://runs/{run.id}/kernel")


def test_a_run_that_does_not_exist(tmp_path: Path) -> None:
    said = unreadable(server(tmp_path), "kernelwright://runs/none/result")
    assert said == "there is no run 'none'; kernelwright://runs lists all"


@pytest.mark.parametrize("argument", ["sandbox", "problems"])
def test_an_argument_that_a_tool_does_not_have_is_refused(tmp_path: Path, argument: str) -> None:
    answer = call(server(tmp_path), "evaluate", kernel="level1/1_19", **{argument: "none"})
    assert refused(answer).startswith(f"error: `{argument}`: evaluate has no such argument")


def test_http_answers_the_loopback_address_only(tmp_path: Path) -> None:
    from starlette.testclient import TestClient

    other = "http://localhost:3000"
    app = server(tmp_path).streamable_http_app(
        transport_security=security("127.0.0.1", 8484, [other]), session_idle_timeout=IDLE_S
    )
    with TestClient(app, base_url="http://127.0.0.1:8484") as client:
        post = partial(client.post, "/mcp", content=b"{", headers={"content-type": "application/json"})
        assert post().json()["error"]["message"].startswith("Parse error")
        for origin, status in [
            ("http://localhost:8000", 403),
            ("http://localhost:8484", 400),
            (other, 400),
        ]:
            assert post(headers={"content-type": "application/json", "origin": origin}).status_code == status
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        headers = {"accept": "application/json, text/event-stream"}
        assert client.post("/mcp", json=ping, headers={**headers, "host": "evil.example"}).status_code == 421
        assert client.post("/mcp", json=ping, headers={**headers, "origin": "http://evil.example"}).status_code == 403
