"""The datasets of the tests: three Definitions of flashinfer-trace, and one of SOL-ExecBench."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RMS, GEMM, BAG = "rmsnorm_h128", "gemm_n64_k64", "embedding_bag_w64"


def copied(folder: Path) -> Path:
    """A copy of the dataset of flashinfer-trace that a test may change."""
    return Path(shutil.copytree(HERE / "dataset", folder / "dataset"))


def copied_sol(folder: Path) -> Path:
    """The same of SOL-ExecBench; the problem lies in a folder of its own."""
    shutil.copytree(HERE / "sol_execbench", folder / "sol" / "permute_rows")
    return folder / "sol"


def changed(path: Path, change: Callable[[Any], object]) -> None:
    """Change a JSON file, or the first line of a file of lines."""
    first, separator, rest = path.read_text().partition("\n") if path.suffix == ".jsonl" else (path.read_text(), "", "")
    record = json.loads(first)
    change(record)
    path.write_text(json.dumps(record) + separator + rest)


def definition(**fields: Any) -> dict[str, Any]:
    """A Definition with some fields of its own."""
    plain: dict[str, Any] = {
        "name": "double",
        "op_type": "scale",
        "axes": {"n": {"type": "var"}},
        "inputs": {"x": {"shape": ["n"], "dtype": "float32"}},
        "outputs": {"y": {"shape": ["n"], "dtype": "float32"}},
        "reference": "def run(x):\n    return 2 * x\n",
    }
    return plain | fields


def solution(sources: dict[str, str], **spec: Any) -> dict[str, Any]:
    """A Solution of that Definition; its first file has the entry point `run`."""
    built = {"language": "triton", "target_hardware": ["cuda"], "entry_point": f"{next(iter(sources))}::run"}
    files = [{"path": path, "content": text} for path, text in sources.items()]
    return {"name": "doubled", "definition": "double", "author": "me", "spec": built | spec, "sources": files}
