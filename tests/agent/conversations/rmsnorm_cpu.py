"""A CPU kernel (RMS normalization) on its way to its target: a wrong hoist, fixed, tuned, then threads."""

from __future__ import annotations

from collections.abc import Sequence

from kernelwright.corpus import find_kernel

from ...openai_server import ScriptStep
from .telling import READY, analysis, changed, submit, submit_tuned, use

SHIPPED = find_kernel("1_36", "tilelang_cpu").read().source

_DIVIDED = "X[b, c, bp * BLOCK_P + p] / T.sqrt(sum_square[p] / C + eps)"
_SECOND_PASS = "            for c in T.serial(C):\n                for p in T.serial(BLOCK_P):\n                    Y["


def _hoisted(root: str) -> str:
    """One pass over the pixels computes `root`, the factor that the pass over the channels multiplies with."""
    factor = f"            for p in T.serial(BLOCK_P):\n                sum_square[p] = {root}\n"
    return changed(
        SHIPPED, (_DIVIDED, "X[b, c, bp * BLOCK_P + p] * sum_square[p]"), (_SECOND_PASS, factor + _SECOND_PASS)
    )


WRONG = _hoisted("T.sqrt(sum_square[p] / C + eps)")
RIGHT = _hoisted("1.0 / T.sqrt(sum_square[p] / C + eps)")
THREADED = changed(
    RIGHT,
    ("import functools\n", "import functools\nfrom concurrent.futures import ThreadPoolExecutor\n"),
    ("BLOCK_P = 256\n", "BLOCK_P = 256\nTHREADS = 2\n\nPOOL = ThreadPoolExecutor(max_workers=THREADS)\n"),
    (
        'def rmsnorm(X: T.Tensor((B, C, P), "float32"), Y: T.Tensor((B, C, P), "float32")):\n'
        "        with T.Kernel(B, T.ceildiv(P, BLOCK_P)) as (b, bp):\n",
        'def rmsnorm(X: T.Tensor((B, C, P), "float32"), Y: T.Tensor((B, C, P), "float32"), part: T.int32):\n'
        "        with T.Kernel(T.ceildiv(B, THREADS), T.ceildiv(P, BLOCK_P)) as (step, bp):\n"
        "            T.assume(part >= 0)\n"
        "            T.assume(part < THREADS)\n"
        "            b = part * T.ceildiv(B, THREADS) + step\n",
    ),
    ("out_idx=[-1], ", ""),
    (
        "        return kernel(x.contiguous().view(B, C, H * W)).view(x.shape)\n",
        "        x = x.contiguous()\n"
        "        y = torch.empty_like(x)\n"
        "        flat, out = x.view(B, C, H * W), y.view(B, C, H * W)\n"
        "        list(POOL.map(lambda part: kernel(flat, out, part), range(THREADS)))\n"
        "        return y\n",
    ),
)

STEPS: Sequence[ScriptStep] = (
    READY,
    analysis(
        "compute",
        ["one root and one division per element, in the innermost loop", "half of the cores idle"],
        ("hoist invariants", "the second loop over c", "the root depends on p alone: C times fewer", 4.0),
        ("threads", "the grid over b", "one of two cores is idle", 1.9),
    ),
    use("search_examples", query="compute a root once per row instead of once per element", technique="loop-order"),
    submit(WRONG, "hoist the root", "The root is computed once per pixel."),
    submit(RIGHT, "hoist the reciprocal root", "The factor must be the reciprocal: the division became a product."),
    analysis(
        "parallelism",
        ["one core of two is busy"],
        ("threads", "the grid over b", "the samples are independent, one core is idle", 1.8),
    ),
    use("tune", kernel=RIGHT, space={"BLOCK_P": [128, 256, 512, 1024]}, tuner="grid", trials=4),
    submit_tuned(THREADED, "split the samples over threads", "Each thread computes half of the samples."),
)
"""The whole conversation; the numbers of steps are those of a run that stops at its target."""
