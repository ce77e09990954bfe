"""Turns verified results into the description of an operator's package: the entry to this package for other code.

deployment = assembled("mylib::swiglu", [measured_kernel(path, kernel, problem)])
checks = write(deployment, folder)
"""

from __future__ import annotations

from collections.abc import Sequence

from ..core.dynamic_size import FreeSize
from .description import describe, require_size
from .source import MeasuredKernel, common_licence
from .table import entries_of
from .writing import Deployment, PackageLayout


def assembled(
    name: str,
    kernels: Sequence[MeasuredKernel],
    *,
    serve: FreeSize | None = None,
    licence: str | None = None,
    gradients: Sequence[MeasuredKernel] = (),
    layout: PackageLayout = PackageLayout.WHEEL,
) -> Deployment:
    """Trace kernels and references, and decide which kernel serves which sizes.

    `name` is 'mylib::swiglu'. `serve` is a size of the problem that is free within a range; `gradients` are kernels for
    `corpus.backward.backward_problem`; `licence` replaces what the files state. Raises `KernelError` for results that
    cannot be one operator.
    """
    short = name.partition("::")[2]
    stated = common_licence((*kernels, *gradients), licence)
    if serve is not None:
        require_size(kernels, serve)
    entries = entries_of(short, kernels, describe(name, kernels, serve), serve)
    backward = []
    if gradients:
        backward = entries_of(f"{short}_backward", gradients, describe(f"{name}_backward", gradients, None), None)
    return Deployment(name, tuple(entries), stated, tuple(backward), layout)
