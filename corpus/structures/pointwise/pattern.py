"""Element-wise operators alone: each element of the result for itself, in blocks."""

from __future__ import annotations

from ..emitter import Emitter, RefusedError
from ..indices import Index, Symbol, apart
from ..region import WARPS, KernelWork, LaunchParameter, Region, Structure, WrittenKernel, filled, kernel_name, powers
from .template import TEMPLATE

_LEAST, _START, _MOST = 128, 1024, 4096


def write(region: Region) -> WrittenKernel:
    """Return the kernel of a region."""
    size = region.value.size
    if any(region.graph.by_name[name].size != size for name in region.stored):
        raise RefusedError("results of several sizes")
    emitter = Emitter(region.graph, region.inlined)
    x = Index.of(Symbol("x", size, frozenset({"x_mask"})))
    for name in region.stored:
        value = region.graph.by_name[name]
        indices = apart(x, value.shape)
        emitter.store(name, indices, emitter.value(name, indices), "[XBLOCK]", ("x_mask",))
    body = emitter.lines
    name = kernel_name(region, "pointwise")
    return WrittenKernel(
        structure="pointwise",
        name=name,
        source=filled(TEMPLATE, emitter, {"body": body}, name=name, size=size),
        buffers=tuple(emitter.buffers),
        stored=region.stored,
        grid=(f"triton.cdiv({size}, XBLOCK)",),
        parameters={
            "XBLOCK": LaunchParameter(_START, powers(_LEAST, _MOST)),
            WARPS: LaunchParameter(4, (1, 2, 4, 8)),
        },
        constraints=(f"XBLOCK >= {WARPS} * 32",),
        work=KernelWork(float(len(body)) * size),
    )


STRUCTURE = Structure("pointwise", write, anchors=lambda graph, value: False)
