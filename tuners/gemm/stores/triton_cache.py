"""A module with an autotuned kernel, for Triton's own cache of autotuners on disk.

Triton finds an entry of its cache by the source, the configs of the decorator and the key of the call. So a module is
written whose configs are the shapes' best ones, and beside it a file with all times: when a shape joins, the configs
change, and the entries of all shapes are made anew.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ....core import OptionError
from ....core.syntax_tree import syntax_tree
from ....corpus.kernels import SHIPPED
from ..fields import missing_fields, to_fields
from ..shapes import Shape
from .store import ANOTHER, GEMM, ConfigEntry, ConfigKey, Document, EngineFormat, FoundEntry, read_json

MODULE, TIMES = "gemm_autotuned.py", "gemm_autotuned.json"
KERNEL, FUNCTION = "tuned_gemm_kernel", "gemm"
SHARED = ("place", "accumulate", "compute_tile", "store_tile")
"""Functions of the shipped kernel that the module's kernel calls."""
NAMES = {f"BLOCK_SIZE_{axis}": f"BLOCK_{axis}" for axis in "MNK"} | {"GROUP_SIZE_M": "GROUP_M"}
"""The kernel's names for the fields."""
HEAD = '''"""C = A B, fp32 accumulation. Triton's cache on disk chooses among the configs; written by kernelwright."""

import torch
import triton
import triton.language as tl

CONFIGS = [
{configs}
]


{functions}


@triton.autotune(configs=CONFIGS, key=["M", "N", "K", "A_ROWS", "B_ROWS"], cache_results=True)
@triton.heuristics({{"EVEN_K": lambda args: args["K"] % args["BLOCK_K"] == 0}})
@triton.jit
def tuned_gemm_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, lda, ldb, A_ROWS: tl.constexpr, B_ROWS: tl.constexpr, EVEN_K: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):
    block_m, block_n = place(tl.program_id(0), M, N, BLOCK_M, BLOCK_N, GROUP_M)
    acc = compute_tile(
        a_ptr, b_ptr, M, N, K, lda, ldb, block_m, block_n, 0, tl.cdiv(K, BLOCK_K),
        A_ROWS, B_ROWS, EVEN_K, BLOCK_M, BLOCK_N, BLOCK_K,
    )
    store_tile(c_ptr, acc, M, N, block_m, block_n, BLOCK_M, BLOCK_N)


def gemm(A, B):
    """Return A (M, K) times B (K, N), each row- or column-major; fp8 operands give bf16."""
    M, K = A.shape
    N = B.shape[1]
    a_rows, b_rows = A.stride(1) == 1, B.stride(1) == 1
    C = torch.empty((M, N), device=A.device, dtype=torch.bfloat16 if A.element_size() == 1 else A.dtype)
    lda, ldb = A.stride(0 if a_rows else 1), B.stride(0 if b_rows else 1)

    def grid(meta):
        return (triton.cdiv(M, meta["BLOCK_M"]) * triton.cdiv(N, meta["BLOCK_N"]),)

    tuned_gemm_kernel[grid](A, B, C, M, N, K, lda, ldb, A_ROWS=a_rows, B_ROWS=b_rows)
    return C
'''


class TritonCache(EngineFormat):
    """`gemm_autotuned.py`, whose autotuner needs no benchmark, and `gemm_autotuned.json` with the times."""

    id = "triton-cache"
    kernels = (GEMM,)

    def grouped(
        self, target: Path, subject: ConfigKey, entries: Sequence[ConfigEntry]
    ) -> dict[Path, list[ConfigEntry]]:
        """One file for all."""
        return {target / TIMES: list(entries)}

    def parse(self, path: Path) -> Document:
        """A shape's dtype, config and times each."""
        found = read_json(path)
        for key, value in found.items():
            if not {"shape", "dtype", "config", "times"} <= set(value) or missing_fields(value["config"]):
                raise OptionError(f"{path}: {key} is not a shape with a config and times", ANOTHER)
        return found

    def merge(self, document: Document, subject: ConfigKey, entries: Sequence[ConfigEntry]) -> Document:
        """Each shape and dtype has its own key; an entry that was only checked replaces none with times."""
        merged = dict(document)
        for entry in entries:
            shape = entry.shape
            if entry.time_ms is None and merged.get(_key(subject, shape), {}).get("times"):
                continue
            times = {**entry.times, entry.config: entry.time_ms} if entry.time_ms else {}
            merged[_key(subject, shape)] = {
                "shape": {"M": shape.m, "N": shape.n, "K": shape.k, "LAYOUT": shape.layout},
                "dtype": subject.dtype,
                "config": to_fields(entry.config),
                # The search's times and the final one are not of one measurement: the choice must win.
                "times": [
                    [to_fields(config), ms if config == entry.config else max(ms or 0.0, 1.001 * (entry.time_ms or 0))]
                    for config, ms in times.items()
                ],
            }
        return merged

    def also(self, target: Path, subject: ConfigKey, documents: Mapping[Path, Document]) -> dict[Path, Document]:
        """The module."""
        (document,) = documents.values()
        return {target / MODULE: {"source": module_text(document)}}

    def text(self, document: Document) -> str:
        """The times as JSON, or the module."""
        if "source" in document:
            return str(document["source"])
        return json.dumps(document, indent=1, sort_keys=True) + "\n"

    def find(self, target: Path, subject: ConfigKey, shape: Shape) -> FoundEntry | None:
        """Only the shape's own: for others Triton benchmarks."""
        path = target / TIMES
        found = self.parse(path).get(_key(subject, shape)) if path.exists() else None
        return FoundEntry(found["config"], path, _key(subject, shape)) if found else None


def _key(subject: ConfigKey, shape: Shape) -> str:
    return f"M={shape.m} N={shape.n} K={shape.k} {shape.layout} {subject.dtype}"


def module_text(document: Document) -> str:
    """Return the module whose configs are the best ones of these shapes."""
    best = {json.dumps(entry["config"]): entry["config"] for entry in document.values()}
    configs = [
        f"    triton.Config({renamed(item)!r}, num_warps={item['num_warps']}, num_stages={item['num_stages']}),"
        for item in best.values()
    ]
    source = (SHIPPED / "triton" / "gemm" / "gemm.py").read_text()
    lines = source.splitlines()
    functions = {node.name: node for node in syntax_tree(source).body if isinstance(node, ast.FunctionDef)}
    bodies = [
        "\n".join(lines[functions[name].decorator_list[0].lineno - 1 : functions[name].end_lineno]) for name in SHARED
    ]
    return HEAD.format(configs="\n".join(configs), functions="\n\n\n".join(bodies))


def renamed(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tile of a config under the kernel's names."""
    return {own: fields[name] for name, own in NAMES.items()}


def workloads(document: Document) -> list[dict[str, Any]]:
    """Return the sizes of each timed shape and the times of its configs, as the program that enters them takes both."""
    return [
        {
            "sizes": {**entry["shape"], "DTYPE": entry["dtype"]},
            "timings": [
                {
                    "kernel": KERNEL,
                    "config": {**renamed(fields), **{name: fields[name] for name in ("num_warps", "num_stages")}},
                    "ms": ms,
                }
                for fields, ms in entry["times"]
            ],
        }
        for entry in document.values()
        if entry["times"]
    ]
