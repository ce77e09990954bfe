"""A device's peak rates: measured once and cached, never from a datasheet."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import Any

from ...core.devices import architecture, architecture_name
from ..timing.clock import Call, Clock, always
from ..workers.channel import Message
from .gpu_properties import describe_gpu
from .memory_rates import memory_rates

_COPY_MIB = {"cpu": 64, "cuda": 1024}
_NARROW = {"half_gflop_s": "float16", "bfloat16_gflop_s": "bfloat16"}
MATRIX_ROWS = {"cpu": 512, "cuda": 8192}
"""Rows of the product; on a CPU few, since a call of 1 ms is seldom interrupted while others use the cores."""
_REPEATS = {"cpu": 100, "cuda": 20}


def measure(device: str) -> Message:
    """Return copy bandwidth (bytes read plus written) and matrix rates, the best of many calls.

    On a GPU, fp32 products may also run on the tensor cores, as three TF32 products whose sum is as accurate (Ootomo
    and Yokota, Recovering single precision accuracy from Tensor Cores, 2022): a third of that rate is a ceiling too.
    """
    import torch

    kind = device.split(":")[0]
    clock = Clock(device)

    def fastest(call: Call) -> float:
        clock.sample(always(call), 3)
        return min(clock.sample(always(call), _REPEATS[kind]).times_ms)

    source = torch.randn(_COPY_MIB[kind] << 18, device=device)
    sink = torch.empty_like(source)
    copy_ms = fastest(lambda: sink.copy_(source))
    n = MATRIX_ROWS[kind]
    left, right = torch.randn(n, n, device=device), torch.randn(n, n, device=device)
    matrix_ms = fastest(lambda: left @ right)
    on_gpu: dict[str, float | None] = dict.fromkeys(
        [*_NARROW, "float8_gflop_s", "vector_gflop_s", "tf32_gflop_s", "l2_gb_s", "launch_us", "latency_ns"]
    )
    if kind == "cuda":
        cores = torch.cuda.get_device_properties(device).multi_processor_count
        on_gpu["vector_gflop_s"] = 2 * n**3 / matrix_ms / 1e6
        torch.backends.cuda.matmul.allow_tf32 = True
        try:
            tf32_ms = fastest(lambda: left @ right)
        finally:
            torch.backends.cuda.matmul.allow_tf32 = False
        on_gpu["tf32_gflop_s"] = 2 * n**3 / tf32_ms / 1e6
        matrix_ms = min(matrix_ms, 3 * tf32_ms)
        for name, dtype in _NARROW.items():
            left_operand, right_operand = (operand.to(getattr(torch, dtype)) for operand in (left, right))
            on_gpu[name] = 2 * n**3 / fastest(partial(torch.mm, left_operand, right_operand)) / 1e6
        if float8 := architecture(architecture_name(describe_gpu(device))).float8:
            # A library without such a product is no reason to fail: the ceiling stays unknown.
            with contextlib.suppress(RuntimeError, AttributeError, TypeError, ValueError):
                on_gpu["float8_gflop_s"] = 2 * n**3 / fastest(_float8_product(left, right, float8[0])) / 1e6
        on_gpu |= memory_rates(clock)
    else:
        cores = torch.get_num_threads()
    return {
        "copy_gb_s": 2 * source.numel() * source.element_size() / copy_ms / 1e6,
        "matrix_gflop_s": 2 * n**3 / matrix_ms / 1e6,
        **on_gpu,
        "cores": cores,
    }


def _float8_product(left: Any, right: Any, dtype: str) -> Call:
    """Return a call that multiplies in fp8 at the highest rate; torch wants the right operand by columns."""
    import torch

    left_operand, right_operand = (operand.to(getattr(torch, dtype)) for operand in (left, right))
    scale = torch.ones((), device=left.device)
    return partial(
        torch._scaled_mm,
        left_operand,
        right_operand.t(),
        scale_a=scale,
        scale_b=scale,
        out_dtype=torch.bfloat16,
        use_fast_accum=True,
    )
