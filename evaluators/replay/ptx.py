"""PTX: what it may contain, its compilation with flags of ours, and its launch by Triton's launcher.

The text comes from the candidate's process, so nothing in it is believed. A kernel may compute what it likes on its
arguments; it may have no variables that outlive a launch, call no function that it does not contain, and read no clock.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ...core.launch_plan import KernelCode
from ..timing.scrub import LOCAL_BYTES
from .values import UnplannableCallError

OPTIONS = re.compile(r"--?(maxrregcount|opt-level|register-usage-level|O)[= ]?\d+|-v|--verbose")
"""Options of ptxas that a kernel may ask for."""
_SKIPPED = re.compile(r'//[^\n]*|/\*.*?\*/|"[^"\n]*"', re.DOTALL)
"""Comments and names of files."""
_DEBUG_DATA = re.compile(r"^\s*\.section\s+\.debug_\w+\s*\{[^}]*\}", re.MULTILINE)
_ENTRY = re.compile(r"\.entry\s+([\w$]+)")
_POINTER = re.compile(r"\.ptr\s+\.\w+")
"""The state space that a parameter points to."""
_DIRECTIVES = re.compile(r"(?<![\w$%])(?:\.[A-Za-z_]\w*)+")
"""Directives, also joined (`.visible.global`); in an instruction (`ld.global`) a word precedes the point."""
_KEPT = frozenset({"global", "const", "tex", "texref", "surfref", "samplerref", "alias", "section"})
"""Directives that declare what outlives a launch, or what is not seen here."""
_TABLE = re.compile(r"\.global\s+\.align\s+\d+\s+\.b8\s+([\w$]+)\[\d+\]\s*=\s*\{[\d,\s]*\}\s*;")
"""Constant tables of NVIDIA's library: digits of 2/pi, for reducing large arguments of sine and cosine."""
_UNKNOWN = re.compile(r"\.extern\b(?!\s*\.shared\b)|\bvprintf\b|\bmalloc\b|\bcudaLaunch\w+|\bcnp\w+")
_TELLING = re.compile(r"%(?:clock|globaltimer|pm\d|gridid|envreg|current_graph_exec)\w*")
"""Registers that count time, events or launches, or tell how a kernel was launched. PTX cannot put names together."""
_LOCAL = re.compile(r"(?<![\w$%])\.local\b[^;]*?\.[a-z](?P<bits>\d+)\s+[\w$]+(?:\[(?P<count>\d+)\])?")
"""Declarations of local memory."""
_INDIRECT = re.compile(r"\.(?:callprototype|calltargets)\b")
"""Declarations for calls of an address."""
_FUNCTION = re.compile(r"\.(?:func|entry)\b")
_NAME = re.compile(r"%?[\w$]+")
_LOAD = re.compile(r"(?<![\w$%.])ldu?\.")
_ON_ADDRESSES = re.compile(r"(?<![\w$%.])(?:mov|cvta?|add|sub|mad|selp)\.[\w.:]+\s+(?P<written>\{[^{}]*\}|%?[\w$]+)")
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


def require_ptx(code: KernelCode) -> None:
    """Raise `UnplannableCallError` where PTX contains anything that is not allowed."""
    if _ENTRY.findall(_SKIPPED.sub(" ", code.text)) != [code.entry]:
        raise UnplannableCallError(f"{code.name}: PTX with other kernels than the one that is launched")
    require_only_computes(code.name, code.text)


def require_only_computes(name: str, text: str) -> None:
    """Raise `UnplannableCallError` where PTX keeps something beyond a launch, leaves its kernels, or reads a clock."""
    text = _POINTER.sub(".ptr", _DEBUG_DATA.sub(" ", _SKIPPED.sub(" ", text)))
    for pattern in (_UNKNOWN, _TELLING, _INDIRECT):
        if (found := pattern.search(text)) is not None:
            raise UnplannableCallError(f"{name}: PTX with '{found[0].strip()}'")
    local = sum(int(match["bits"]) // 8 * int(match["count"] or 1) for match in _LOCAL.finditer(text))
    if local > LOCAL_BYTES:
        raise UnplannableCallError(f"{name}: PTX with {local} bytes of local memory, which outlive a launch")
    tables = {match[1] for match in _TABLE.finditer(text)}
    text = _TABLE.sub(" ", text)
    for chain in _DIRECTIVES.findall(text):
        if kept := _KEPT.intersection(chain.split(".")):
            raise UnplannableCallError(f"{name}: PTX with '.{min(kept)}', which outlives a launch")
    # Registers belong to one function, and what passes an address to another is refused.
    if tables and not all(_only_reads(body, tables) for body in _FUNCTION.split(text)):
        raise UnplannableCallError(f"{name}: PTX that may write to {min(tables)}, which outlives a launch")


def _only_reads(text: str, tables: set[str]) -> bool:
    """Return whether addresses of the tables are only added to, copied and loaded from."""
    addresses: set[str] = set(tables)
    while True:
        known = len(addresses)
        for statement in text.split(";"):
            if _LOAD.search(statement) or addresses.isdisjoint(_NAME.findall(statement)):
                continue
            if (computes := _ON_ADDRESSES.search(statement)) is None:
                return False
            addresses.update(_NAME.findall(computes["written"]))
        if len(addresses) == known:
            return True


def load_ptx(code: KernelCode, folder: Path, device: str, scratch: list[Any]) -> Any:
    """Return a function that launches the kernel, given the grid and the arguments.

    Scratch memory that the launches take is added to `scratch`. Raises `UnplannableCallError` where the code is not
    allowed, does not compile, or does not fit the device.
    """
    require_ptx(code)
    settings = _settings(code)
    try:
        import torch
        import triton
        from triton.compiler import make_backend
        from triton.runtime.driver import driver
    except ImportError:
        raise UnplannableCallError("Triton, which launches PTX, is not installed") from None
    index = torch.device(device).index or 0
    try:
        target = driver.active.get_current_target()
        backend = make_backend(target)
        launcher = driver.active.launcher_cls(_source(code), settings)
        cubin = _cubin(code.text, settings, backend, target, folder)
        _, function, *_ = driver.active.utils.load_binary(code.entry, cubin, settings.shared, index)
        packed = backend.pack_metadata(settings)
    except Exception as error:  # of ptxas, or of the driver
        raise UnplannableCallError(f"{code.name}: PTX that cannot be loaded: {str(error).strip()[:200]}") from None
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
        raise UnplannableCallError(f"{code.name}: PTX without its settings")
    if found["profile_scratch_size"] or found["instrumentation_mode"]:
        raise UnplannableCallError(f"{code.name}: PTX that Triton instrumented for its profiler")
    for option in re.split(r"\s+(?=-)", (found["ptx_options"] or "").strip()):
        if option and not OPTIONS.fullmatch(option):
            raise UnplannableCallError(
                f"{code.name}: the option {option} of ptxas, which is not among the allowed ones"
            )
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
