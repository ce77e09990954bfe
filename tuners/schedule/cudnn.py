"""cuDNN's attention by its name: the problem of attention with SDPA's cuDNN backend as its reference.

Without a name torch chooses among its backends, so that a ratio to "SDPA" may be one to a slower backend.
"""

from __future__ import annotations

from dataclasses import replace

from ...core import TorchProblem

NAME = "SDPA's cuDNN backend"
_CALL = "        return functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal, enable_gqa=shared)\n"
_NAMED = """        from torch.nn.attention import SDPBackend, sdpa_kernel

        # In fp64, and on a CPU, cuDNN has none.
        halves = q.is_cuda and q.dtype in (torch.float16, torch.bfloat16)
        with sdpa_kernel([SDPBackend.CUDNN_ATTENTION] if halves else [SDPBackend.MATH]):
            return functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal, enable_gqa=shared)
"""


def cudnn_problem(problem: TorchProblem) -> TorchProblem:
    """Return the problem of the attention kernel with cuDNN as its reference; torch raises where cuDNN refuses it."""
    assert _CALL in problem.source
    return replace(problem, id=f"{problem.id}_cudnn", source=problem.source.replace(_CALL, _NAMED), path="")
