"""PTX: what it may contain, its compilation with flags of ours, and its launch by Triton's launcher.

The text comes from the candidate's process, so nothing in it is believed. A kernel may compute what it likes on its
arguments; it may have no variables that outlive a launch, and call no function that it does not contain.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ...core.launch_plan import KernelCode
from .values import UnplannableCall

OPTIONS = re.compile(r"--?(maxrregcount|opt-level|register-usage-level|O)[= ]?\d+|-v|--verbose")
"""Options of ptxas that a kernel may ask for."""
_SKIPPED = re.compile(r'//[^\n]*|/\*.*?\*/|"[^"\n]*"', re.DOTALL)
"""Comments and names of files."""
_DEBUG_DATA = re.compile(r"^\s*\.section\s+\.debug_\w+\s*\{[^}]*\}", re.MULTILINE)
_ENTRY = re.compile(r"\.entry\s+([\w$]+)")
_POINTER = re.compile(r"\.ptr\s+\.\w+")
"""The state space that a parameter points to."""
_VARIABLE = re.compile(r"(?:^|(?<=[\s;{}]))\.(?:global|const|tex|texref|surfref|samplerref)\b[^;]*")
"""A declaration, wherever it stands on its line; in an instruction (`ld.global`) something precedes the point."""
_TABLE = re.compile(
    r"\.global\s+\.align\s+\d+\s+\.b8\s+(__cudart_i2opi_[fd]|_\$_str[\w$]*)\[\d{1,3}\]\s*=\s*\{[\d,\s]*\}\s*"
)
"""Digits of 2/pi, with which sine and cosine reduce large arguments; names of switches in NVIDIA's library."""
_UNKNOWN = re.compile(r"\.extern\s+(?!\.shared)|\.alias\b|\.section\b|\bvprintf\b|\bmalloc\b|\bcudaLaunch\w+|\bcnp\w+")
_NUMBERS = ("num_warps", "num_ctas", "shared", "global_scratch_size", "profile_scratch_size")
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


def require_ptx(code: KernelCode) -> None:
    """Raise `UnplannableCall` where PTX contains anything that is not allowed."""
    text = _POINTER.sub(".ptr", _DEBUG_DATA.sub(" ", _SKIPPED.sub(" ", code.text)))
    if _ENTRY.findall(text) != [code.entry]:
        raise UnplannableCall(f"{code.name}: PTX with other kernels than the one that is launched")
    if (found := _UNKNOWN.search(text)) is not None:
        raise UnplannableCall(f"{code.name}: PTX with '{found[0].strip()}'")
    for variable in _VARIABLE.finditer(text):
        if not _TABLE.fullmatch(variable[0]):
            raise UnplannableCall(f"{code.name}: PTX with a variable that outlives a launch: '{variable[0].strip()}'")


def load_ptx(code: KernelCode, folder: Path, device: str) -> Any:
    """Return a function that launches the kernel, given the grid and the arguments.

    Raises `UnplannableCall` where the code is not allowed, does not compile, or does not fit the device.
    """
    require_ptx(code)
    settings = _settings(code)
    try:
        import torch
        import triton
        from triton.compiler import make_backend
        from triton.runtime.driver import driver
    except ImportError:
        raise UnplannableCall("Triton, which launches PTX, is not installed") from None
    index = torch.device(device).index or 0
    triton.set_allocator(lambda size, *_: torch.empty(size, dtype=torch.int8, device=device))
    try:
        target = driver.active.get_current_target()
        backend = make_backend(target)
        launcher = driver.active.launcher_cls(_source(code), settings)
        cubin = _cubin(code.text, settings, backend, target, folder)
        _, function, *_ = driver.active.utils.load_binary(code.entry, cubin, settings.shared, index)
        packed = backend.pack_metadata(settings)
    except Exception as error:  # of ptxas, or of the driver
        raise UnplannableCall(f"{code.name}: PTX that cannot be loaded: {str(error).strip()[:200]}") from None
    stream_of = driver.active.get_current_stream

    def launch(grid: tuple[int, ...], values: list[Any]) -> None:
        x, y, z = (*grid, 1, 1)[:3]
        launcher(x, y, z, stream_of(index), function, packed, None, None, None, *values)

    return launch


def _source(code: KernelCode) -> Any:
    """Return what Triton's launcher asks of a kernel's source."""
    return SimpleNamespace(signature=dict(enumerate(code.parameters)), constants={})


def _settings(code: KernelCode) -> Any:
    found = {**_DEFAULTS, **{name: code.settings[name] for name in code.settings if name in (*_NUMBERS, *_DEFAULTS)}}
    if not all(isinstance(found.get(name), int) for name in _NUMBERS):
        raise UnplannableCall(f"{code.name}: PTX without its settings")
    for option in re.split(r"\s+(?=-)", (found["ptx_options"] or "").strip()):
        if option and not OPTIONS.fullmatch(option):
            raise UnplannableCall(f"{code.name}: the option {option} of ptxas, which is not among the allowed ones")
    return SimpleNamespace(name=code.entry, **found)


def _cubin(text: str, settings: Any, backend: Any, target: Any, folder: Path) -> bytes:
    """Compile with ptxas as Triton does, once."""
    options = {"enable_fp_fusion": settings.enable_fp_fusion, "ptx_options": settings.ptx_options}
    path = folder / f"{hashlib.sha256(f'{text}{options}'.encode()).hexdigest()}.cubin"
    if not path.exists():
        partial = path.with_suffix(".partial")
        partial.write_bytes(backend.make_cubin(text, {}, backend.parse_options(options), target.arch))
        partial.rename(path)
    return path.read_bytes()
