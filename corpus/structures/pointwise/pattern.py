"""Element-wise operators alone: each element of the result for itself, in blocks."""

from __future__ import annotations

from ....core.dynamic_size import typical
from ..emitter import Emitter, RefusedError
from ..indices import Index, Symbol, apart
from ..region import WARPS, KernelWork, LaunchParameter, Region, Structure, WrittenKernel, filled, kernel_name, powers
from .template import TEMPLATE

_LEAST, _START, _MOST = 128, 1024, 4096


def filled_elements(region: Region, emitter: Emitter, name: str, *more: str) -> str:
    """Return the source of a kernel that computes each element of a region's results for itself.

    `emitter` may have anchors; `more` are further parameters. Raises `RefusedError`.
    """
    size = region.value.size
    if any(region.graph.by_name[stored].size != size for stored in region.stored):
        raise RefusedError("results of several sizes")
    x = Index.of(Symbol("x", size, frozenset({"x_mask"})))
    for stored in region.stored:
        indices = apart(x, region.graph.by_name[stored].shape)
        emitter.store(stored, indices, emitter.value(stored, indices), "[XBLOCK]", ("x_mask",))
    parameters = "".join(f", {parameter}: tl.constexpr" for parameter in more)
    return filled(TEMPLATE, emitter, {"body": emitter.lines}, name=name, size=size, more=parameters)


def write(region: Region) -> WrittenKernel:
    """Return the kernel of a region."""
    emitter, name, size = Emitter(region.graph, region.inlined), kernel_name(region, "pointwise"), region.value.size
    source = filled_elements(region, emitter, name)
    return WrittenKernel(
        structure="pointwise",
        name=name,
        source=source,
        buffers=tuple(emitter.buffers),
        stored=region.stored,
        grid=(f"triton.cdiv({size}, XBLOCK)",),
        parameters={
            "XBLOCK": LaunchParameter(_START, powers(_LEAST, _MOST)),
            WARPS: LaunchParameter(4, (1, 2, 4, 8)),
        },
        constraints=(f"XBLOCK >= {WARPS} * 32",),
        work=KernelWork(float(len(emitter.lines)) * typical(size)),
    )


STRUCTURE = Structure("pointwise", write, anchors=lambda graph, value: False, dynamic=True)
