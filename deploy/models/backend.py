"""The backend of torch.compile: `torch.compile(model, backend="kernelwright")`.

torch finds it by an entry point of the group `torch_dynamo_backends`. This module imports nothing heavy.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .store import RegionStore

DISABLE = "KERNELWRIGHT_DISABLE"
"""Variable that makes the backend torch.compile's own."""
RECORD = "KERNELWRIGHT_RECORD"
"""Variable with a folder to which regions are written as problems, without using the store."""
SHARES = "KERNELWRIGHT_SHARES"
"""Variable with a file, to which the time of each region in a step is written."""
_PASS = "post_grad_custom_pre_pass"


def kernelwright(
    graph_module: Any,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Any:
    """Compile a graph with Inductor, with operators in place of regions that the store has.

    `mode` and `options` are those of torch.compile. Without an entry it is exactly the backend "inductor".
    """
    from torch import _TorchCompileInductorWrapper

    inductor = _TorchCompileInductorWrapper(mode, options, None)
    disabled = os.environ.get(DISABLE, "0") not in ("", "0")
    folder, shares = os.environ.get(RECORD, ""), os.environ.get(SHARES, "")
    store = None if disabled or folder else _store()
    if disabled or not (folder or store or shares):
        return inductor(graph_module, example_inputs)
    from torch._inductor import config
    from torch._inductor.compile_fx import compile_fx

    others = inductor.config.get(_PASS, getattr(config, _PASS))
    before = [] if others is None else [*others] if isinstance(others, list | tuple) else [others]
    patches = dict(inductor.config)
    inner: dict[str, Any] = {}
    if shares or folder:
        from .shares import PATCHES, step_profiler, write_shares

        patches |= PATCHES
        inner["inner_compile"] = (write_shares(Path(shares)) if shares else step_profiler()).inner_compile
    if folder:
        from .recording import recorder_for

        recorder = recorder_for(Path(folder))
        inner["inner_compile"], own = recorder.inner_compile, recorder.collecting
    else:
        from .store import opened
        from .substitution import RegionPass

        own = RegionPass(store or opened(), marks=bool(shares))
    from .pass_sequence import PassSequence

    patches[_PASS] = PassSequence([*before, own])
    return compile_fx(graph_module, example_inputs, config_patches=patches, **inner)


def chosen() -> tuple[str, tuple[str, ...]]:
    """Return a digest of the entries that this process uses, to compare between ranks, and their names."""
    from .substitution import LOADED

    return LOADED.digest, LOADED.names


def _store() -> RegionStore | None:
    """Return the process's store; None if it has no entry."""
    from .store import opened

    store = opened()
    return store if store.paths else None
