"""A scripted model takes real kernels to their targets: real HTTP, DSPy, compilers and clocks."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any
from unittest import mock

from ..cli.commands import kernelwright
from ..openai_server import KEY, OpenAIServer
from .conversations import rmsnorm_cpu

MODEL = "openai/gpt-4o"


def converse(folder: Path, server: OpenAIServer, *options: object) -> subprocess.CompletedProcess[str]:
    """`optimize` with the server as its model; TESTS_KEEP names a folder to keep its results in."""
    model = ["--model", MODEL, "--api-base", server.base_url, "--json"]
    with mock.patch.dict(os.environ, OPENAI_API_KEY=KEY):
        run = kernelwright("optimize", *options, *model, cwd=folder)
    if kept := os.environ.get("TESTS_KEEP"):
        name = "_".join(str(options[i + 1]) for i, option in enumerate(options) if option in ("--kernel", "--backend"))
        shutil.copytree(folder / "results", Path(kept) / name, dirs_exist_ok=True)
    return run


def finished(run: subprocess.CompletedProcess[str], server: OpenAIServer) -> dict[str, Any]:
    """The summary of a run that took every step of the script and made no request beyond."""
    assert run.returncode == 0, run.stderr
    assert server.errors == []
    summary: dict[str, Any] = json.loads(run.stdout)
    return summary


def turns_in(folder: Path) -> list[dict[str, Any]]:
    (path,) = (folder / "results" / "multiturn_logs").glob("optimization_history_*.json")
    turns: list[dict[str, Any]] = json.loads(path.read_text())
    return turns


def test_a_cpu_kernel_is_analysed_rewritten_repaired_tuned_and_threaded(tmp_path: Path) -> None:
    with OpenAIServer(rmsnorm_cpu.STEPS) as server:
        size = ("--workload", "batch_size=8,dim1=64,dim2=32")
        run = converse(tmp_path, server, "--kernel", "1_36", *size, "--target-speedup", 1.3, "--max-iterations", 2)
    summary = finished(run, server)
    assert summary["verified"]
    assert summary["best"]["latency_ms"] < summary["start"]["latency_ms"] / 2
    turns = turns_in(tmp_path)
    first = turns[0]
    assert [call["name"] for call in first["tool_calls"]] == ["search_examples"]
    assert [attempt["statuses"] for attempt in first["attempts"]] == [["wrong_value"], ["ok"]]
    assert first["improved"]
    if len(turns) == 1:  # the first turn reached the target: a faster machine, or a slower reference
        assert summary["target_reached"]
        return
    assert server.unused() == []
    second = turns[1]
    assert [call["name"] for call in second["tool_calls"]] == ["tune"]
    assert second["tool_calls"][0]["trials"] == 4
    assert second["best"]["status"] == "ok"
    assert second["cost"]["tokens"] > 0
