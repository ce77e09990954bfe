"""Words by which texts name `TECHNIQUES`: ideas, strategies, and rationales of a run's turns."""

from __future__ import annotations

import re

_WORDS = {
    "shared-memory": r"shared memory|stag(?:e|ed|ing) in shared",
    "pipelining": r"pipelin|num_stages|prefetch|double.buffer|cp\.async",
    "tensor-cores": r"tensor.core|wgmma|\bmma\b|tf32|bf16|T\.gemm|tl\.dot",
    "swizzle": r"swizzl|grouped order|bank conflict",
    "vectorized-access": r"vectori[sz]|128.bit|16.byte|wide load",
    "fusion": r"\bfus(?:e|ed|ing|ion)\b|epilogue",
    "split-k": r"split.k\b",
    "persistent-grid": r"persistent",
    "online-reduction": r"\bonline\b|running (?:maximum|sum)|welford",
    "coalescing": r"coalesc|transpos",
    "register-tiling": r"register.til|in registers",
    "two-stage-reduction": r"two.stage|two.pass|partial (?:sum|result)",
    "multi-row-blocks": r"(?:several|multiple|many) rows|rows per (?:block|program)",
    "tma": r"\btma\b|tensor.descriptor",
    "warp-specialization": r"warp.speciali",
    "recomputation": r"recomput",
    "launch-tuning": r"launch.tun|num_warps|block size",
    "loop-order": r"loop.order|interchange|contiguous",
    "threads": r"\bthreads?\b|\bcores?\b",
    "unrolling": r"unroll",
    "scan": r"\bscan\b|prefix sum",
}


def techniques_in(text: str) -> set[str]:
    """Return the techniques that a text names."""
    return {name for name, words in _WORDS.items() if re.search(words, text, re.IGNORECASE)}
