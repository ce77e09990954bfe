"""A scripted model takes CUDA kernels past torch: a linear layer in full fp32, on the tensor cores."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..openai_server import OpenAIServer
from .conversations import linear_tilelang, linear_triton
from .test_conversation import converse, finished, turns_in

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(400)]

CONVERSATIONS = {"triton": linear_triton.STEPS, "tilelang": linear_tilelang.STEPS}


@pytest.mark.parametrize("backend", CONVERSATIONS)
def test_a_cuda_kernel_is_analysed_rewritten_repaired_and_tuned(backend: str, tmp_path: Path) -> None:
    options = ["--kernel", "2_12", "--backend", backend, "--device", "cuda", "--target-speedup", 2]
    with OpenAIServer(CONVERSATIONS[backend]) as server:
        run = converse(tmp_path, server, *options, "--max-iterations", 2)
    summary = finished(run, server)
    assert summary["verified"]
    assert summary["best"]["latency_ms"] < summary["start"]["latency_ms"]
    assert summary["best"]["speedup"] > 1.1
    turns = turns_in(tmp_path)
    first = turns[0]
    assert [call["name"] for call in first["tool_calls"]] == ["search_examples"]
    assert [attempt["statuses"] for attempt in first["attempts"]] == [["wrong_value"], ["ok"]]
    assert first["improved"]
    if len(turns) == 1:  # the first turn reached the target
        return
    assert server.unused() == []
    second = turns[1]
    (tune,) = second["tool_calls"]
    assert tune["name"] == "tune"
    assert tune["ok"]
    assert tune["trials"] > 1
    assert [attempt["statuses"] for attempt in second["attempts"]] == [["ok"]]
