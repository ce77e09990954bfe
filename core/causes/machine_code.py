"""Causes by a kernel's machine code, as `evaluators.profiling.machine_code` reads it."""

from __future__ import annotations

from collections.abc import Iterator

from ..compiled_code import SECTOR, CompiledCode, MemoryAccess
from ..kernel_profile import DeviceKernel
from .launches import few_warps
from .observed import Observed, article, at_line, plural

Found = Iterator[tuple[float, str]]
_VECTOR = 16
"""Bytes of the widest load of a lane."""
_LATENCY_NS = 600.0
"""Latency of device memory, where it was not measured."""
_MMA = 0.63
"""Rate of mma over that of wgmma on Hopper (Luo et al.: Benchmarking and Dissecting the Nvidia Hopper GPU Architecture,
2024)."""
_SPECIAL_CYCLES = 8
"""Cycles of a scheduler for one special function of a warp: 16 per clock and multiprocessor."""
_FP64_CYCLES = 2
"""The same for fp64 arithmetic, on the GPUs of data centers."""
_MOSTLY_OWN = 0.9
"""Share of the time in own kernels from which the products are theirs."""
_WORTH = 1.1
"""Possible speedup below which a cause in the code is not reported."""


def uncoalesced(seen: Observed) -> Found:
    """Yield accesses to global memory that touch more sectors than their bytes need."""
    for kernel, code, share in seen.codes:
        accesses = [access for access in _hot(code, "global") if access.known and not _narrow(access)]
        counted = [access for access in _hot(code, "global") if access.known]
        excess = sum(access.requests - access.needed for access in accesses)
        needed = sum(access.needed for access in counted)
        factor = 1 + excess / max(needed, 1)
        worst = max(accesses, key=lambda access: access.requests - access.needed, default=None)
        if worst is None or factor < _WORTH:
            continue
        apart = f"{abs(worst.stride)} bytes apart" if worst.stride is not None else "apart"
        each = worst.requests / worst.known
        text = (
            f"{kernel.short_name} {_verb(worst)} {worst.width} bytes per lane, {apart}{at_line(worst.line)}: "
            f"{each:.0f} sectors of {SECTOR} bytes per request, where {worst.needed / worst.known:.0f} hold the bytes"
        )
        yield seen.gain(share, factor), text


def narrow(seen: Observed) -> Found:
    """Yield loads of few bytes per lane."""
    for kernel, code, share in seen.codes:
        loads = _loads(code)
        thin = [access for access in loads if _narrow(access)]
        moved = sum(access.width * access.count for access in loads)
        if not thin or sum(access.width * access.count for access in thin) < moved / 2:
            continue
        worst = max(thin, key=lambda access: access.width * access.count)
        text = (
            f"{kernel.short_name} loads {worst.width} bytes per lane{at_line(worst.line)}: "
            f"{_VECTOR // worst.width} times the instructions of {_VECTOR}-byte loads"
        )
        if worst.mergeable:
            text += f", though a lane's {worst.mergeable} bytes are consecutive: the compiler saw no alignment"
        ratio = _VECTOR / worst.width
        yield seen.gain(share, max(ratio**0.25, min(ratio, _starved(seen, kernel, code)))), text


def bank_conflicts(seen: Observed) -> Found:
    """Yield accesses to shared memory that take several passes for what fits one."""
    for kernel, code, share in seen.codes:
        accesses = [access for access in _hot(code, "shared") if access.known]
        worst = max(accesses, key=lambda access: access.requests - access.needed, default=None)
        if worst is None or worst.requests < 2 * worst.needed:
            continue
        passes = sum(access.requests for access in accesses)
        least = sum(access.needed for access in accesses)
        issued = code.busy / 4
        factor = max(issued, passes) / max(issued, least)
        ways = worst.requests / worst.needed
        apart = f", {abs(worst.stride)} bytes apart" if worst.stride is not None else ""
        text = (
            f"{kernel.short_name} {_verb(worst)} shared memory with {ways:.0f}-way bank conflicts"
            f"{at_line(worst.line)}: lanes access {worst.width} bytes{apart}; padding or a swizzle spreads them"
        )
        if factor > _WORTH:
            yield seen.gain(share, factor), text


def repeated_reads(seen: Observed) -> Found:
    """Yield tensors that several loops in sequence read."""
    for kernel, code, share in seen.codes:
        if not code.passes or not seen.memory_bound:
            continue
        lines = max(code.passes, key=len)
        count = len(lines)
        shown = f" (lines {', '.join(map(str, lines))})" if all(lines) else ""
        text = (
            f"{kernel.short_name} reads a tensor in {count} loops{shown}: each pass moves it again, unless a block's "
            "part stays in cache"
        )
        yield seen.gain(share, (count + 1) / 2), text


def register_copies(seen: Observed) -> Found:
    """Yield loops whose loads only pass registers on their way to shared memory."""
    for kernel, code, share in seen.codes:
        if code.copied and _has_async_copies(seen):
            text = (
                f"{kernel.short_name} copies to shared memory through registers{at_line(code.copied_line)}, "
                f"{plural(code.copied, 'load', 'loads')} per pass that every warp waits for: cp.async or TMA run "
                "beside the arithmetic"
            )
            yield seen.gain(share, max(_starved(seen, kernel, code), min(1.4, seen.idle(kernel, code)))), text


def few_loads(seen: Observed) -> Found:
    """Yield kernels whose warps request too little before they wait (Little's law)."""
    for kernel, code, share in seen.codes:
        factor = _starved(seen, kernel, code)
        other = few_warps(kernel) or code.copied or any(map(_narrow, _loads(code)))  # which says why
        if factor < _WORTH or code.wait is None or other:
            continue
        there = code.in_flight * 4 * (seen.warps(kernel) or 1)
        line = code.wait.produced_line
        text = (
            f"{kernel.short_name} waits for {f'the load of line {line}' if line else 'a load'}{_used(code)} for "
            f"{code.wait.cycles / code.cycles:.0%} of a warp's cycles: {code.in_flight} bytes per warp and "
            f"{there / 1024:.1f} KiB per multiprocessor are in flight, bandwidth times latency is "
            f"{_wanted(seen) / 1024:.1f} KiB"
        )
        yield seen.gain(share, factor), text


def _wanted(seen: Observed) -> float:
    """Return the bytes that a multiprocessor must have in flight for the bandwidth of a copy."""
    latency = seen.profile.ceilings.latency_ns or _LATENCY_NS
    return seen.profile.ceilings.copy_gb_s * latency / seen.profile.ceilings.cores


def _starved(seen: Observed, kernel: DeviceKernel, code: CompiledCode) -> float:
    """Return the bandwidth over what the loads in flight allow; 1 if they suffice, or are not waited for."""
    warps = seen.warps(kernel)
    if warps is None or code.wait is None or code.wait.producer != "load" or not code.in_flight:
        return 1.0
    return max(1.0, min(_wanted(seen) / (code.in_flight * 4 * warps), seen.idle(kernel, code)))


def _loads(code: CompiledCode) -> list[MemoryAccess]:
    return [access for access in _hot(code, "global") if not access.store and access.known]


def idle_lanes(seen: Observed) -> Found:
    """Yield accesses that few lanes of a warp make."""
    for kernel, code, share in seen.codes:
        accesses = [access for access in _hot(code, "global") if access.known]
        worst = min(accesses, key=lambda access: access.lanes, default=None)
        total = sum(access.known for access in accesses)
        if worst is None or worst.lanes > 16:
            continue
        mean = sum(access.lanes * access.known for access in accesses) / total
        if mean > 20:
            continue
        text = (
            f"{kernel.short_name} {_verb(worst)} with {worst.lanes} of a warp's 32 lanes{at_line(worst.line)}: the "
            "others are masked off, or repeat the same address"
        )
        yield seen.gain(share, 32 / mean), text


def contended(seen: Observed) -> Found:
    """Yield atomic operations of all lanes on one address."""
    for kernel, code, share in seen.codes:
        if code.contended is not None:
            text = (
                f"{kernel.short_name} updates one address from all lanes of a warp{at_line(code.contended)}: the "
                "updates happen one by one; sum within the warp or block first"
            )
            yield seen.gain(share, 32.0), text


def spills(seen: Observed) -> Found:
    """Yield the reloads and stores of registers in the hottest code."""
    for kernel, code, share in seen.codes:
        count = code.mix.get("local", 0)
        if not count:
            if kernel.spills:
                yield 1.0, f"{kernel.short_name} spills {kernel.spills} bytes per thread, outside its hottest code"
            continue
        factor = max(code.hot / max(code.hot - count, 1), 1.0)
        text = (
            f"{kernel.short_name} spills: {count} of {code.hot} instructions of its hottest code move registers to or "
            f"from memory{at_line(code.lines.get('local'))}"
        )
        text += f", {kernel.spills} bytes per thread at {kernel.registers} registers" if kernel.spills else ""
        yield seen.gain(share, 2 * factor - 1), text


def serial_products(seen: Observed) -> Found:
    """Yield loops that wait for every wgmma before they go on."""
    for kernel, code, share in seen.codes:
        if not code.serial_products or not code.products:
            continue
        groups = max(1.0, seen.warps(kernel) or 1.0)
        factor = min(code.cycles / max(code.matrix_cycles, 1), 4.0) / groups
        text = (
            f"{kernel.short_name} waits for all its wgmma{at_line(code.serial_line)} "
            f"{plural(code.serial_products, 'time', 'times')} per pass of the loop, which issues "
            f"{plural(code.products, 'group', 'groups')} of them: a warp group keeps the tensor cores busy for "
            f"{code.matrix_cycles:.0f} of {code.cycles:.0f} cycles"
        )
        if factor > _WORTH:
            yield seen.gain(share, factor), text


def no_tensor_cores(seen: Observed) -> Found:
    """Yield matrix products that run on the vector units."""
    profile = seen.profile
    vector = profile.ceilings.vector_gflop_s
    own = [kernel for kernel, _ in seen.heavy]
    known = own and all(kernel.tensor_cores is not None for kernel in own)
    library = sum(share for _, share in seen.heavy) < _MOSTLY_OWN
    if seen.memory_bound or not known or library or any(kernel.tensor_cores for kernel in own):
        return
    ratio = profile.matrix_gflop_s / vector if vector else seen.room
    if ratio > 1.2:
        kernel, share = seen.heavy[0]
        line = kernel.code.lines.get("fp32") if kernel.code else None
        text = (
            f"{kernel.short_name} has no matrix instruction: its products run on the vector units{at_line(line)}, "
            f"though tensor cores allow {profile.matrix_gflop_s:.0f} GFLOP/s of {profile.product_precision}"
        )
        yield seen.gain(share, ratio), text


def old_products(seen: Observed) -> Found:
    """Yield kernels with mma on Hopper, where wgmma is faster."""
    if seen.profile.limits is None or seen.profile.limits.architecture != "sm_90" or seen.memory_bound:
        return
    for kernel, share in seen.heavy:
        used = kernel.tensor_cores or ()
        if used and all(name.startswith("mma ") for name in used):
            line = kernel.code.lines.get("matrix") if kernel.code else None
            text = (
                f"{kernel.short_name} multiplies with {', '.join(used)}{at_line(line)}, which reaches {_MMA:.0%} of "
                "wgmma's rate: wgmma takes 4 warps, tiles of 64 rows and operands in shared memory"
            )
            yield seen.gain(share, 1 / _MMA), text


def double_precision(seen: Observed) -> Found:
    """Yield fp64 arithmetic in the hottest code."""
    for kernel, code, share in seen.codes:
        count = code.mix.get("fp64", 0)
        factor = (code.hot + (_FP64_CYCLES - 1) * count) / max(code.hot - count / 2, 1)
        if count and factor > _WORTH:
            text = (
                f"{kernel.short_name} computes in double precision: {count} of {code.hot} instructions of its hottest "
                f"code{at_line(code.lines.get('fp64'))}"
            )
            yield seen.gain(share, factor), text


def special_functions(seen: Observed) -> Found:
    """Yield code that the rate of special functions limits."""
    for kernel, code, share in seen.codes:
        count = code.mix.get("special", 0)
        factor = _SPECIAL_CYCLES * count / code.busy
        warps = seen.warps(kernel)
        if factor > _WORTH and (warps or 1) * _SPECIAL_CYCLES * count > code.cycles:
            text = (
                f"{kernel.short_name} has {count} special functions among {code.hot} "
                f"instructions{at_line(code.lines.get('special'))}, and a multiprocessor computes 16 a cycle"
            )
            yield seen.gain(share, factor), text


def dependent(seen: Observed) -> Found:
    """Yield code in which each instruction waits for another, with too few warps to fill the gaps."""
    for kernel, code, share in seen.codes:
        wait, idle = code.wait, seen.idle(kernel, code)
        if wait is None or wait.producer in ("load", "wgmma") or idle < _WORTH or few_warps(kernel):
            continue
        warps = seen.warps(kernel) or 1
        text = (
            f"{kernel.short_name} issues {code.busy} instructions in {code.cycles:.0f} cycles: it waits most for "
            f"{article(wait.producer)}{at_line(wait.produced_line)}{_used(code)}, and {warps:.3g} warps per scheduler "
            "do not fill the gaps"
        )
        yield seen.gain(share, idle), text


def address_arithmetic(seen: Observed) -> Found:
    """Yield code most of whose instructions compute addresses and masks."""
    for kernel, code, share in seen.codes:
        count = code.mix.get("integer", 0) + code.mix.get("constant", 0)
        if code.hot > 40 and count > 0.6 * code.hot and seen.idle(kernel, code) < 2:
            text = (
                f"{kernel.short_name} spends {count} of {code.hot} instructions of its hottest code on addresses, "
                f"masks and constants{at_line(code.lines.get('integer'))}"
            )
            yield seen.gain(share, min(1.3, 1 / (1.4 - count / code.hot))), text


def _hot(code: CompiledCode, space: str) -> list[MemoryAccess]:
    """Return the accesses in loops, or all without one."""
    return [access for access in code.accesses if access.space == space and (access.in_loop or not code.loops)]


def _narrow(access: MemoryAccess) -> bool:
    """Return whether a warp's lanes access consecutive bytes, few at a time."""
    run = access.mergeable or access.width
    return access.width <= 4 and access.stride is not None and abs(access.stride) == run <= _VECTOR


def _has_async_copies(seen: Observed) -> bool:
    name = seen.profile.limits.architecture if seen.profile.limits else ""
    return (name.startswith("sm_") and name >= "sm_80") or name.startswith("sm_1")


def _verb(access: MemoryAccess) -> str:
    preposition = "to" if access.store else "from"
    return ("stores" if access.store else "loads") + ("" if access.space == "global" else f" {preposition}")


def _used(code: CompiledCode) -> str:
    line = code.wait.line if code.wait else None
    return f" in line {line}" if line and code.wait and line != code.wait.produced_line else ""
