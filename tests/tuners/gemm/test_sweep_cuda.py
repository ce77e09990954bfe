"""A sweep of real searches on a GPU: its files, and what it finds on resuming."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from kernelwright import tune_gemm
from kernelwright.core import Config
from kernelwright.tuners.gemm.shapes import Shape

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(400)]


@pytest.mark.parametrize(
    ("product", "format", "more"),
    [
        ("gemm", "kernelwright", {}),
        ("gemm", "kernelwright", {"backend": "tilelang"}),
        ("a8w8_blockscale", "vllm", {}),
        ("a8w8_blockscale", "kernelwright", {"backend": "tilelang"}),
        ("moe", "vllm", {"experts": 8, "top_k": 2}),
        ("moe", "sglang", {"experts": 8, "top_k": 2}),
    ],
)
def test_a_table_is_tuned_and_resumed(tmp_path: Path, product: str, format: str, more: dict[str, Any]) -> None:
    (tmp_path / "sizes.json").write_text("[[[16, 512], 1024, 1024]]")
    common = {"sizes": tmp_path / "sizes.json", "device": "cuda", "format": format, "results": tmp_path / "results"}
    common |= more
    result = tune_gemm(product, trials=4, output=tmp_path / "configs", **common)  # type: ignore[arg-type]
    assert not result.failed, [shape.error for shape in result.shapes]
    for shape in result.shapes:
        assert shape.time_ms and shape.analytic_ms and shape.gain and shape.gain >= 1
        assert shape.environment["device"] and len(shape.times) >= 1
    assert all(path.exists() for path in result.files)
    again = tune_gemm(product, trials=4, output=tmp_path / "configs", resume=True, **common)  # type: ignore[arg-type]
    assert [shape.time_ms for shape in again.shapes] == [shape.time_ms for shape in result.shapes]
    assert json.loads((result.folder / "sweep.json").read_text())["shapes"][0]["M"] == 16


def test_the_operator_takes_the_tuned_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch
    from kernelwright.ops import gemm as ops

    monkeypatch.setenv("KERNELWRIGHT_GEMM_CONFIGS", str(tmp_path))
    result = tune_gemm("gemm", m=(64,), n=512, k=512, trials=4, device="cuda", results=tmp_path / "results")
    a = torch.randn(64, 512, device="cuda", dtype=torch.float16)
    b = torch.randn(512, 512, device="cuda", dtype=torch.float16).t()
    torch.testing.assert_close(ops.gemm(a, b), a @ b, atol=0.1, rtol=0.01)
    assert ops._config("gemm", "triton", Shape(m=64, n=512, k=512), "float16", 0) == Config(
        result.shapes[0].config or {}
    )
