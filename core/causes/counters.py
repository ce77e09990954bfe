"""Causes by a profiler's counters: Nsight Compute's, whose names `evaluators.profiling.ncu` has."""

from __future__ import annotations

from collections.abc import Iterator

from .observed import Observed

Found = Iterator[tuple[float, str]]
_EXTRA = 1.3
"""Multiple of the bytes that must move."""
_L2_HITS = 30
"""Hit rate of L2 in per cent below which extra traffic means that it thrashes."""
_LANES = 24
"""Lanes of 32 that execute on average."""
_ISSUED = 60
"""Per cent of the issue slots beyond which stalls are not the limit."""
STALLS = {
    "long_scoreboard": "loads from global or local memory are used soon after they are issued",
    "short_scoreboard": "results from shared memory or special functions are used soon after they are issued",
    "barrier": "warps of a block wait for its slowest one",
    "wait": "each instruction waits for the one before, at a fixed latency",
    "math_pipe_throttle": "the units for its arithmetic are busy",
    "mio_throttle": "the queue of shared memory and special functions is full",
    "lg_throttle": "the queue of loads and stores is full: fewer, wider accesses relieve it",
    "tex_throttle": "the queue of the texture units is full",
    "gmma": "wgmma is waited for before more work is issued",
    "no_instruction": "instructions are fetched from memory: the code is too long or too unrolled",
    "imc_miss": "constants are fetched from memory",
    "drain": "stores are not finished when warps end",
    "membar": "memory fences are waited for",
    "branch_resolving": "branches are waited for",
    "dispatch_stall": "the dispatcher holds instructions back",
    "sleeping": "warps sleep",
    "misc": "other reasons",
}
"""Nsight Compute's reasons for stalls, as its Profiling Guide explains them."""


def unused_bytes(seen: Observed) -> Found:
    """Yield loads that use few bytes of the sectors that they move."""
    used = _counters(seen).get("load_bytes_used_pct")
    if used is not None and 0 < used < 50:
        sectors = _counters(seen).get("sectors_per_load")
        each = f", {sectors:.1f} sectors per request" if sectors is not None else ""
        yield min(100 / used, seen.room), f"its loads use {used:.0f} % of the bytes of the sectors they move{each}"


def bank_conflicts(seen: Observed) -> Found:
    """Yield conflicts of shared memory's banks."""
    share = _counters(seen).get("bank_conflict_pct")
    if share is not None and share > 10:
        factor = min(1 / (1 - min(share, 97) / 100), seen.room)
        yield factor, f"{share:.0f} % of shared memory's passes are bank conflicts"


def extra_traffic(seen: Observed) -> Found:
    """Yield bytes that went through device memory beyond those that must."""
    moved = _counters(seen).get("dram_mb")
    if moved is not None and moved * 1e6 > _EXTRA * seen.profile.min_bytes:
        factor = moved * 1e6 / seen.profile.min_bytes
        text = f"{moved:.1f} MB went through device memory, {factor:.1f} times what must move"
        hits = _counters(seen).get("l2_hit_pct")
        if hits is not None and hits < _L2_HITS:
            text += f"; L2 holds {hits:.0f} % of what is asked for, so data that is used again was evicted"
        yield min(factor, seen.room), text


def idle_lanes(seen: Observed) -> Found:
    """Yield instructions that few lanes of a warp execute."""
    lanes = _counters(seen).get("active_lanes")
    if lanes is not None and 0 < lanes < _LANES:
        yield min(32 / lanes, seen.room), f"{lanes:.1f} of 32 lanes execute an instruction on average"


def stalls(seen: Observed) -> Found:
    """Yield the most frequent reason for which warps wait."""
    shares = {name: value for name, value in _counters(seen).items() if name.startswith("stall_")}
    if shares:
        worst = max(shares, key=lambda name: shares[name])
        reason = worst.removeprefix("stall_").removesuffix("_pct")
        why = f": {STALLS[reason]}" if reason in STALLS else ""
        text = f"{shares[worst]:.0f} % of its warps' stalls are '{reason.replace('_', ' ')}'{why}"
        issued = _counters(seen).get("issue_slots_pct")
        if issued is None or issued > _ISSUED:
            yield 1.0, text
        else:
            # The stall's part of the slots in which nothing was issued.
            lost = min((1 - issued / 100) * shares[worst] / 100, 0.99)
            yield min(1 / (1 - lost), seen.room), f"{100 - issued:.0f} % of issue slots are empty, and {text}"


def throughput(seen: Observed) -> Found:
    """Yield how busy each unit was."""
    busy = [("device memory", "dram_throughput_pct"), ("multiprocessors", "sm_throughput_pct")]
    busy += [("tensor cores", "tensor_pipe_pct")] if seen.profile.matrix_flops else []
    counters = _counters(seen)
    text = ", ".join(f"{name} {counters[key]:.0f} %" for name, key in busy if key in counters)
    if text:
        yield 1.0, f"busy by Nsight Compute: {text}"


def _counters(seen: Observed) -> dict[str, float]:
    return seen.ran.counters if seen.on_gpu and seen.ran is not None else {}
