"""A real server, driven by the SDK's own client over stdio, with real evaluations on the CPU."""

from __future__ import annotations

import itertools
import json
import subprocess
import time
from pathlib import Path
from typing import Any

import anyio
import pytest
from kernelwright.mcp_server.messages import Done
from mcp import Client

from ..conftest import SCALE_KERNEL, SCALE_PROBLEM
from ..surroundings import KERNELWRIGHT
from .serving import process

SCALE = {"kernel": "1_999.py", "problem": "level1/999_Scale.py", "workload": "tiny"}


@pytest.fixture
def root(kernel_file: Path) -> Path:
    """A user's folder: a kernel, its problem, and the same kernel with a mistake."""
    wrong = SCALE_KERNEL.replace("* W[j]", "* V[j]")
    kernel_file.with_name("wrong.py").write_text(wrong)
    return kernel_file.parent


def test_a_session(root: Path) -> None:
    """Evaluate, fail, read why, tune, and read what the run left."""

    async def run() -> None:
        async with Client(process(root)) as client:
            assert client.instructions is not None and "evaluate" in client.instructions
            verdict = await _asked(client, "evaluate", **SCALE)
            assert verdict["status"] == "ok" and verdict["latency_ms"] > 0 and verdict["problem"] == "level1/1_999"
            assert verdict["interval"][0] <= verdict["speedup"] <= verdict["interval"][1]

            await _broken(client)
            await _tuned(client, root)

    anyio.run(run)


def test_a_problem_that_prints_does_not_mix_with_the_messages(root: Path) -> None:
    """Not even what looks like the result: to standard output, to its descriptor, and by another process."""
    forged = Done(result={"status": "ok", "forged": True}).model_dump_json()
    prints = f"import os\nprint({forged!r}, flush=True)\nos.write(1, {forged!r}.encode())\nos.system('echo aloud')\n"
    problem = root / "level1" / "999_Scale.py"
    problem.write_text(prints + problem.read_text())

    async def run() -> None:
        async with Client(process(root)) as client:
            verdict = await _asked(client, "evaluate", **SCALE)
            assert verdict["status"] == "ok" and "forged" not in verdict

    anyio.run(run)


async def _broken(client: Client) -> None:
    verdict = await _asked(client, "evaluate", **{**SCALE, "kernel": "wrong.py"})
    assert verdict["status"] != "ok" and verdict["latency_ms"] is None and "explain_error" in verdict["next"]
    explained = await _asked(client, "explain_error")
    assert explained["kernel"] == "wrong.py" and explained["status"] == verdict["status"]
    assert "V[j]" in explained["text"] and "Kernel file" in explained["sections"]


async def _tuned(client: Client, root: Path) -> None:
    reports: list[tuple[float, float | None, str | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        reports.append((progress, total, message))

    tuned = await _asked(client, "tune", note, **SCALE, params={"BLOCK": [4, 8]}, trials=2)
    assert tuned["trials"] == 2 and tuned["best"]["config"]["BLOCK"] in (4, 8) and tuned["space"]["size"] == 2
    assert all(value < other for (value, *_), (other, *_) in itertools.pairwise(reports))
    # On a busy machine a line is repeated while nothing else happens.
    trials = {
        message.partition(":")[0]: total for _, total, message in reports if message and message.startswith("trial ")
    }
    assert trials == {"trial 1": 3.0, "trial 2": 3.0}
    base = f"kernelwright://runs/{tuned['run']}"
    uris = [resource.uri for resource in (await client.list_resources()).resources]
    assert f"{base}/report" in uris and (f"{base}/kernel" in uris) == (tuned["kernel"] is not None)
    history = (await client.read_resource(f"{base}/history")).contents[0].text
    assert [json.loads(line)["kind"] for line in history.splitlines()].count("trial") >= 2
    assert (await client.read_resource(f"{base}/report")).contents[0].text.startswith("<!DOCTYPE html>")
    assert json.loads((await client.read_resource(f"{base}/result")).contents[0].text) == tuned
    assert (root / tuned["journal"]).is_file()


async def _asked(client: Client, tool: str, note: Any = None, **arguments: Any) -> dict[str, Any]:
    answer = await client.call_tool(tool, arguments, progress_callback=note)
    assert not answer.is_error, answer
    found: dict[str, Any] = answer.structured_content
    return found


def test_a_cancelled_call_ends_its_processes(tmp_path: Path) -> None:
    """The job, its evaluator and its workers; the server goes on, and the run has what was measured."""
    root, temporary = tmp_path / "root", tmp_path / "temporary"
    (root / "level1").mkdir(parents=True)
    temporary.mkdir()
    (root / "level1" / "999_Scale.py").write_text(SCALE_PROBLEM)
    (root / "1_999.py").write_text(SCALE_KERNEL)

    async def run() -> None:
        async with Client(process(root, TMPDIR=str(temporary))) as client:
            seen: list[int] = []
            with anyio.CancelScope() as scope:

                async def note(progress: float, total: float | None, message: str | None) -> None:
                    if message and message.startswith("trial 1"):
                        seen.extend(_living_in(temporary))
                        scope.cancel()

                space = {"BLOCK": [1, 2, 4, 8, 16, 32]}
                await client.call_tool("tune", {**SCALE, "params": space}, progress_callback=note)
            assert len(seen) >= 2, "a job and its workers"
            deadline = time.monotonic() + 20
            while (left := _left_in(temporary)) and time.monotonic() < deadline:
                await anyio.sleep(0.05)
            assert left == []
            listed = json.loads((await client.read_resource("kernelwright://runs")).contents[0].text)
            assert [run["state"] for run in listed] == ["ended early"]
            history = (await client.read_resource(f"kernelwright://runs/{listed[0]['run']}/history")).contents[0].text
            assert '"kind":"trial"' in history

    anyio.run(run)


def _left_in(folder: Path) -> list[int | Path]:
    """Processes, and what they left behind but the lock of the device, which stays."""
    return [*_living_in(folder), *(path for path in folder.iterdir() if "locks" not in path.name)]


def _living_in(folder: Path) -> list[int]:
    """The processes that work in a folder or below it; a zombie works nowhere."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if (entry / "cwd").readlink().is_relative_to(folder):
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def test_what_is_no_request_is_answered(tmp_path: Path) -> None:
    requests = [{"jsonrpc": "2.0", "id": 7, "method": "nope"}, {"jsonrpc": "2.0", "id": 9, "method": "ping"}]
    lines = ["garbage", "{}", "[]", *map(json.dumps, requests)]
    command = [*KERNELWRIGHT, "mcp", "--root", str(tmp_path), "--device", "cpu"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as served:
        assert served.stdin is not None and served.stdout is not None
        served.stdin.write("\n".join(lines) + "\n")
        served.stdin.flush()
        answers = [json.loads(served.stdout.readline()) for _ in lines]
        served.stdin.close()
    codes = {(answer["id"], answer.get("error", {}).get("code", 0)) for answer in answers}
    assert codes == {(None, -32700), (None, -32600), (7, -32601), (9, 0)}
    assert served.returncode == 0
