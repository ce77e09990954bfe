"""PTX and AMD's assembly: checked, assembled with flags of ours, and launched by Triton's launcher.

The text comes from the candidate's process, so nothing in it is believed: `ptx` and `amdgcn` say what it may contain.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ...core.launch_plan import KernelCode
from .amdgcn import checked_amdgcn
from .ptx import checked_ptx
from .values import UnplannableCallError

OPTIONS = re.compile(r"--?(maxrregcount|opt-level|register-usage-level|O)[= ]?\d+|-v|--verbose")
"""Options of ptxas that a kernel may ask for."""
_NUMBERS = ("num_warps", "num_ctas", "shared", "global_scratch_size")
_DEFAULTS: Mapping[str, Any] = {
    "num_ctas": 1,
    "launch_pdl": False,
    "launch_cooperative_grid": False,
    "tensordesc_meta": None,
    "global_scratch_size": 0,
    "global_scratch_align": 1,
    "profile_scratch_size": 0,
    "profile_scratch_align": 1,
    "enable_fp_fusion": True,
    "ptx_options": None,
    "instrumentation_mode": "",
}
CHECKS: Mapping[str, Callable[[KernelCode], str]] = {"ptx": checked_ptx, "amdgcn": checked_amdgcn}
"""By the form of the code: what returns the text that is assembled."""
_FORMS = {"cuda": "ptx", "hip": "amdgcn"}
"""By the backend of Triton's targets."""


def load_triton(code: KernelCode, folder: Path, device: str, scratch: list[Any]) -> Any:
    """Return a function that launches a kernel of Triton's, given the grid and the arguments.

    Scratch memory that the launches take is added to `scratch`. Raises `UnplannableCallError` where the code is not
    allowed, does not compile, or does not fit the device.
    """
    settings = _settings(code)
    text = CHECKS[code.kind](code)
    try:
        import torch
        import triton
        from triton.compiler import make_backend
        from triton.runtime.driver import driver
    except ImportError:
        raise UnplannableCallError("Triton, which launches its kernels, is not installed") from None
    index = torch.device(device).index or 0
    try:
        target = driver.active.get_current_target()
        if (forms := _FORMS.get(target.backend)) != code.kind:
            raise UnplannableCallError(f"{code.name}: {code.kind} code on a GPU that takes {forms or 'other code'}")
        backend = make_backend(target)
        settings.warp_size = target.warp_size
        launcher = driver.active.launcher_cls(_source(code), settings)
        binary = _binary(code, text, settings, backend, target, folder)
        _, function, *_ = driver.active.utils.load_binary(code.entry, binary, settings.shared, index)
        packed = backend.pack_metadata(settings)
    except UnplannableCallError:
        raise
    except Exception as error:  # of ptxas or LLVM, or of the driver
        said = str(error).strip()[:200]
        raise UnplannableCallError(f"{code.name}: {code.kind} code that cannot be loaded: {said}") from None
    stream_of = driver.active.get_current_stream

    def allocate(size: int, *_: Any) -> Any:
        scratch.append(torch.empty(size, dtype=torch.uint8, device=device))
        return scratch[-1]

    def launch(grid: tuple[int, ...], values: list[Any]) -> None:
        x, y, z = (*grid, 1, 1)[:3]
        if settings.global_scratch_size:
            triton.set_allocator(allocate)  # each plan has its own
        launcher(x, y, z, stream_of(index), function, packed, None, None, None, *values)

    return launch


def _source(code: KernelCode) -> Any:
    """Return what Triton's launcher asks of a kernel's source."""
    return SimpleNamespace(signature=dict(enumerate(code.parameters)), constants={})


def _settings(code: KernelCode) -> Any:
    found = {**_DEFAULTS, **{name: code.settings[name] for name in code.settings if name in (*_NUMBERS, *_DEFAULTS)}}
    if not all(isinstance(found.get(name), int) for name in _NUMBERS):
        raise UnplannableCallError(f"{code.name}: {code.kind} code without its settings")
    if found["profile_scratch_size"] or found["instrumentation_mode"]:
        raise UnplannableCallError(f"{code.name}: code that Triton instrumented for its profiler")
    for option in re.split(r"\s+(?=-)", (found["ptx_options"] or "").strip()):
        if option and not OPTIONS.fullmatch(option):
            raise UnplannableCallError(
                f"{code.name}: the option {option} of ptxas, which is not among the allowed ones"
            )
    return SimpleNamespace(name=code.entry, **found)


def _binary(code: KernelCode, text: str, settings: Any, backend: Any, target: Any, folder: Path) -> bytes:
    """Assemble as Triton does, once: PTX to a cubin, AMD's assembly to a code object."""
    options = {"enable_fp_fusion": settings.enable_fp_fusion, "ptx_options": settings.ptx_options}
    suffix = "cubin" if code.kind == "ptx" else "hsaco"
    path = folder / f"{hashlib.sha256(f'{text}{options}{target}'.encode()).hexdigest()}.{suffix}"
    if not path.exists():
        partial = path.with_suffix(".partial")
        if code.kind == "ptx":
            made = backend.make_cubin(text, {}, backend.parse_options(options), target.arch)
        else:
            made = backend.make_hsaco(text, {}, backend.parse_options({}))
        partial.write_bytes(made)
        partial.rename(path)
    return path.read_bytes()
