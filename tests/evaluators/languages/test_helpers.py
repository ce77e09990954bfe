"""Files that a language compiles for itself are compiled once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from kernelwright.evaluators.languages.helpers import copy_helpers, keep_helpers


def test_they_are_copied_and_kernels_are_not(tmp_path: Path) -> None:
    kept, cache = tmp_path / "kept", tmp_path / "cache"
    for name in ("triton/ABC/cuda_utils.cpython-312.so", "triton/DEF/kernel.cubin", "tilelang/GHI/kernel.so"):
        (kept / name).parent.mkdir(parents=True)
        (kept / name).write_text(name)
    copy_helpers(kept, cache)
    assert [path.relative_to(cache).as_posix() for path in cache.rglob("*") if path.is_file()] == [
        "triton/ABC/cuda_utils.cpython-312.so"
    ]
    (cache / "triton/ABC/cuda_utils.cpython-312.so").write_text("changed by a candidate")
    assert (kept / "triton/ABC/cuda_utils.cpython-312.so").read_text() == "triton/ABC/cuda_utils.cpython-312.so"
    copy_helpers(tmp_path / "nothing there", cache)


@pytest.mark.parametrize("link", ["", "triton", "triton/ABC", "triton/ABC/cuda_utils.so"])
def test_nothing_is_written_through_a_link_in_a_candidates_cache(link: str, tmp_path: Path) -> None:
    """The candidate before had this cache, too; what copies has the rights of the user."""
    kept, cache, home = tmp_path / "kept", tmp_path / "cache", tmp_path / "home"
    (kept / "triton/ABC").mkdir(parents=True)
    (kept / "triton/ABC/cuda_utils.so").write_text("a helper")
    home.mkdir()
    (cache / link).parent.mkdir(parents=True, exist_ok=True)
    (cache / link).symlink_to(home / "new" if link.endswith(".so") else home)
    copy_helpers(kept, cache)
    assert not list(home.iterdir())


def test_a_trusted_worker_keeps_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", "elsewhere")
    monkeypatch.setenv("TILELANG_CACHE_DIR", "elsewhere")  # its cache has kernels only
    keep_helpers(tmp_path)
    assert os.environ["TRITON_CACHE_DIR"] == str(tmp_path / "triton")
    assert os.environ["TILELANG_CACHE_DIR"] == "elsewhere"
