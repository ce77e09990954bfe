"""A verified result for a region as an entry of the store."""

from __future__ import annotations

from pathlib import Path

from ...core import KernelError
from ...core.baselines import COMPILE
from ...core.file_locks import temporary_folder
from ...core.languages import TRITON
from ..description import describe
from ..source import MeasuredKernel
from ..table import entries_of, table_of
from ..writing import checked, kernel_sources
from .packages import write_package
from .reference import architecture, reference_tensors, reference_text
from .store import LEAST_GAIN, StoredRegion, version_of

INTERVAL = "interval_compile"
"""Key in a kernel's evidence: the interval of its speedup over torch.compile."""
_OPERATOR = "kernelwright_regions::region"
_CHECKED = "kernelwright_region_checked"


def require_entry(measured: MeasuredKernel) -> None:
    """Raise `ProblemError` for a problem that is not a region's, `KernelError` for a result that may not enter.

    That is one which is not faster than Inductor's code by 2 % at the lower end of the interval, was measured with
    other versions, or whose device is not here.
    """
    reference_text(measured.problem.source)
    path, evidence = measured.path, measured.evidence
    if measured.device == "cuda" and not _gpu_is_here():
        raise KernelError(f"{path} is for a GPU, and none is here; add it where it was measured")
    low, high = evidence.get(INTERVAL) or (None, None)
    if low is None or f"{COMPILE}_ms" not in evidence:
        raise KernelError(f"{path} was not timed in turns with torch.compile; run `optimize` on it again")
    if low < LEAST_GAIN:
        ratio = evidence[f"{COMPILE}_ms"] / evidence["latency_ms"]
        raise KernelError(
            f"{path} is {ratio:.3f}x [{low:.3f}, {high:.3f}] as fast as Inductor's code; only what is beyond doubt "
            f"{LEAST_GAIN - 1:.0%} faster enters the store"
        )
    for name, here in _versions(measured).items():
        if evidence.get(name, here) != here:
            raise KernelError(f"{path} was measured with {name} {evidence[name]}, here is {here}; optimize it again")


def stored_region(measured: MeasuredKernel) -> StoredRegion:
    """Return the entry of a result that may enter, whose kernel was compared with the reference in a sandbox.

    Raises `KernelError` for a kernel that is wrong, or made for other tensors than the region has.
    """
    (description,) = describe(_OPERATOR, [measured], None)
    entries = entries_of("region", [measured], [description], None)
    wanted = reference_tensors(measured.problem.source)
    if list(description.arguments) != wanted:
        raise KernelError(f"{measured.path}: get_inputs() makes other tensors than Model.forward is annotated with")
    sources, visible = kernel_sources(entries)
    entry = StoredRegion(
        device=architecture(measured.device),
        versions=_versions(measured),
        compile_ms=measured.evidence[f"{COMPILE}_ms"],
        latency_ms=measured.evidence["latency_ms"],
        gain_interval=tuple(measured.evidence[INTERVAL]),
        table=table_of(_OPERATOR, entries, visible),
        problem=measured.problem.source,
        kernels=sources,
    )
    verify_region(entry)
    return entry


def verify_region(entry: StoredRegion) -> list[str]:
    """Compare an entry's kernels with its reference, in a sandbox. Return a line for each comparison.

    Raises `KernelError` if they are wrong.
    """
    with temporary_folder("kernelwright-region-") as folder:
        write_package(entry, folder / Path(_CHECKED))
        return checked(_CHECKED, folder)


def _versions(measured: MeasuredKernel) -> dict[str, str]:
    language = "triton" if measured.kernel.language is TRITON else str(measured.kernel.language)
    return {name: version_of(name) for name in ("torch", language)}


def _gpu_is_here() -> bool:
    import torch

    return bool(torch.cuda.is_available())
