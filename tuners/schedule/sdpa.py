"""Backends of torch's attention by their names: problems of attention with one of them as the reference.

Without a name torch chooses among its backends, so that a ratio to "SDPA" may be one to a slower backend.
"""

from __future__ import annotations

import re
from dataclasses import replace
from enum import StrEnum

from ...core import TorchProblem

_CALL = re.compile(r"^( +)(return functional\.scaled_dot_product_attention\(.*\))$", re.MULTILINE)
_NAMED = r"""\1# In fp64, and on a CPU, it is not there.
\1there = q.is_cuda and q.dtype != torch.float64
\1with sdpa_kernel([SDPBackend.{backend}] if there else [SDPBackend.MATH]):
\1    \2"""
_IMPORTS = """import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.bias import causal_lower_right
"""
_MASK = "torch.ones(queries, keys, dtype=torch.bool, device=q.device).tril(keys - queries)"


class SdpaBackend(StrEnum):
    """A backend of torch's attention."""

    CUDNN = "SDPA's cuDNN backend"
    FLASH = "SDPA's FlashAttention backend"
    EFFICIENT = "SDPA's memory-efficient backend"


def problem_by(backend: SdpaBackend, problem: TorchProblem) -> TorchProblem:
    """Return a problem of attention with a backend as its reference; torch raises if the backend refuses it.

    FlashAttention takes no mask, but can hide the keys that the newest positions do not see.
    """
    source, count = _CALL.subn(_NAMED.format(backend=f"{backend.name}_ATTENTION"), problem.source)
    assert count == 1, problem.id
    source = source.replace("import torch\n", _IMPORTS, 1)
    if backend is SdpaBackend.FLASH:
        source = source.replace(_MASK, "causal_lower_right(queries, keys)")
    return replace(problem, id=f"{problem.id}_{backend.name.lower()}", source=source, path="")
