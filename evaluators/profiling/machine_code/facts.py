"""Reads the facts of `core.CompiledCode` from one kernel's machine code."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ....core.compiled_code import SECTOR, CompiledCode, MemoryAccess
from .issue import run
from .kinds import kind_of
from .lanes import LaneRequest, follow
from .listing import LARGEST, CodeLoop, Instruction, Listing, registers_of
from .values import LANES, Lanes

_BANKS, _WORD = 32, 4
_MOST = 12
"""Accesses that are kept, those in loops first."""
_FIRST_PARAMETER = 0x160
"""Offset of a kernel's first parameter in the constants of a launch, before Blackwell."""


def facts_of(listing: Listing) -> CompiledCode | None:
    """Return the facts of a kernel; None for one without code, or too long to analyse."""
    if not 0 < len(listing.code) <= LARGEST:
        return None
    loops = [loop for loop in listing.loops() if loop.end - loop.start > 1]
    innermost = [loop for loop in loops if not any(other != loop and other.start in loop for other in loops)]
    requests = list(follow(listing))
    hot = _hottest(listing, innermost)
    code = listing.code[hot.start : hot.end + 1]
    kinds = Counter(map(kind_of, code))
    lines: defaultdict[str, Counter[int]] = defaultdict(Counter)
    for item in code:
        if item.line is not None:
            lines[kind_of(item)][item.line] += 1
    alone = run(code) if innermost else run(code, 1)
    serial = _serial_products(listing, loops)
    copied = _copies(listing, innermost)
    return CompiledCode(
        loops=bool(loops),
        hot=len(code),
        mix=dict(kinds),
        lines={kind: counted.most_common(1)[0][0] for kind, counted in lines.items()},
        accesses=tuple(_accesses(listing, loops, requests)),
        passes=tuple(_passes(listing, innermost, requests)),
        **serial,
        **copied,
        contended=_contended(listing, requests),
        busy=max(1, alone.issued),
        cycles=alone.cycles,
        matrix_cycles=alone.matrix_cycles,
        wait=alone.longest(),
        in_flight=alone.in_flight,
    )


def _hottest(listing: Listing, innermost: Sequence[CodeLoop]) -> CodeLoop:
    """Return the innermost loop with most work: matrix instructions and accesses to memory weigh more."""

    def work(loop: CodeLoop) -> int:
        kinds = Counter(map(kind_of, listing.code[loop.start : loop.end + 1]))
        return kinds["matrix"] * 32 + kinds["global"] * 8 + kinds["local"] * 4 + kinds["shared"] * 4 + kinds.total()

    return max(innermost, key=work, default=CodeLoop(0, len(listing.code) - 1))


def _accesses(listing: Listing, loops: Sequence[CodeLoop], requests: Iterable[LaneRequest]) -> list[MemoryAccess]:
    grouped: defaultdict[tuple[Any, ...], list[LaneRequest]] = defaultdict(list)
    for request in requests:
        item = listing.code[request.index]
        if kind_of(item) == "atomic":
            continue
        inside = any(request.index in loop for loop in loops)
        grouped[request.space, request.store, item.line, request.width, inside].append(request)
    found = [_access(listing, key, group) for key, group in grouped.items()]
    return sorted(found, key=lambda access: (not access.in_loop, -access.requests * access.count))[:_MOST]


def _access(listing: Listing, key: tuple[Any, ...], group: Sequence[LaneRequest]) -> MemoryAccess:
    space, store, line, width, inside = key
    known = [request for request in group if request.address is not None and request.active.any()]
    counted = [_sectors(item) if space == "global" else _bank_passes(item) for item in known]
    strides = {_stride(item) for item in known}
    lanes = [_own_addresses(item) for item in known]
    return MemoryAccess(
        space=space,
        store=store,
        line=line,
        width=width,
        count=len(group),
        in_loop=inside,
        known=len(known),
        requests=sum(requests for requests, _ in counted),
        needed=sum(needed for _, needed in counted),
        stride=next(iter(strides)) if len(strides) == 1 else None,
        lanes=round(sum(lanes) / len(lanes)) if lanes else LANES,
        mergeable=_mergeable(known, width) if space == "global" else 0,
    )


def _lanes(request: LaneRequest) -> Lanes:
    assert request.address is not None
    return request.address.lanes[request.active]


def _sectors(request: LaneRequest) -> tuple[int, int]:
    """Return the sectors that a request touches, and the least for its bytes; the shared part is taken as aligned."""
    lanes = np.unique(_lanes(request))
    lanes = lanes - (lanes.min() // SECTOR * SECTOR if request.address is not None and not request.address.step else
                     lanes.min())  # fmt: skip
    touched = {int(part) // SECTOR for start in lanes for part in (start, start + request.width - 1)}
    distinct = {int(start) + byte for start in lanes for byte in range(request.width)}
    return len(touched), -(-len(distinct) // SECTOR)


def _bank_passes(request: LaneRequest) -> tuple[int, int]:
    """Return the passes of a request through the banks of shared memory, and the passes without a conflict."""
    assert request.address is not None
    addresses = request.address.lanes
    per_pass = max(1, min(LANES, LANES * _WORD // request.width))
    passes, needed = 0, 0
    for start in range(0, LANES, per_pass):
        chosen = request.active[start : start + per_pass]
        lanes = addresses[start : start + per_pass][chosen]
        if not len(lanes):
            continue
        words = {int(address) // _WORD + word for address in lanes for word in range(max(1, request.width // _WORD))}
        passes += max(Counter(word % _BANKS for word in words).values())
        needed += 1
    return passes, needed


def _stride(request: LaneRequest) -> int | None:
    assert request.address is not None
    apart = np.diff(request.address.lanes)
    return int(apart[0]) if (apart == apart[0]).all() else None


def _own_addresses(request: LaneRequest) -> int:
    """Return the lanes that access an address of their own; all for one that is uniform on purpose."""
    lanes = _lanes(request)
    distinct = len(np.unique(lanes))
    return LANES if distinct == 1 and len(lanes) == LANES else distinct


def _mergeable(known: Sequence[LaneRequest], width: int) -> int:
    """Return the consecutive bytes of one lane that narrower instructions of one line access."""
    starts: defaultdict[bytes, set[int]] = defaultdict(set)
    for request in known:
        assert request.address is not None
        lanes = request.address.lanes
        starts[(lanes - lanes[0]).tobytes()].add(int(lanes[0]))
    longest = 0
    for begun in starts.values():
        length, before = 0, None
        for start in sorted(begun):
            length = length + width if before is not None and start == before + width else width
            longest, before = max(longest, length), start
    return longest if longest > width else 0


def _passes(listing: Listing, innermost: Sequence[CodeLoop], requests: Sequence[LaneRequest]) -> list[tuple[int, ...]]:
    """Return, for each tensor that several loops load from, a line of each of those loops."""
    loops_of: defaultdict[str, dict[int, int]] = defaultdict(dict)
    for request in requests:
        if request.space != "global" or request.store or request.address is None:
            continue
        tensors = [name for name in request.address.sources if int(name, 16) >= _FIRST_PARAMETER]
        loop = next((number for number, item in enumerate(innermost) if request.index in item), None)
        if len(tensors) == 1 and loop is not None:
            loops_of[tensors[0]].setdefault(loop, listing.code[request.index].line or 0)
    return [tuple(dict.fromkeys(found.values())) for found in loops_of.values() if len(set(found.values())) > 1]


def _serial_products(listing: Listing, loops: Sequence[CodeLoop]) -> dict[str, Any]:
    """Return waits that leave no wgmma in flight, in loops that issue them."""
    with_products = [
        loop for loop in loops if any(item.name.endswith("GMMA") for item in listing.code[loop.start : loop.end + 1])
    ]
    if not with_products:
        return {}
    loop = min(with_products, key=lambda item: item.end - item.start)
    code = listing.code[loop.start : loop.end + 1]
    waits = [item for item in code if item.name == "WARPGROUP" and item.has("DEPBAR") and item.operands[-1] == "0x0"]
    groups = [item for item in code if item.name.endswith("GMMA") and any("gsb" in part for part in item.operands)]
    line = next((item.line for item in groups if item.line is not None), None)
    return {"serial_products": len(waits), "serial_line": line, "products": len(groups)}


def _copies(listing: Listing, innermost: Sequence[CodeLoop]) -> dict[str, Any]:
    """Return the loads whose registers are next read by a store to shared memory."""
    found: list[int | None] = []
    for loop in innermost:
        code = listing.code[loop.start : loop.end + 1]
        if any(item.name in ("LDGSTS", "UTMALDG", "UBLKCP") for item in code):
            continue  # its tiles are copied asynchronously; what is left is small
        for index, item in enumerate(code):
            if item.name == "LDG" and (reader := _reader(code[index + 1 :], item)) is not None:
                found += [item.line] if reader.name == "STS" and item.operands[0] in reader.operands else []
    return {"copied": len(found), "copied_line": next((line for line in found if line is not None), None)}


def _reader(after: Sequence[Instruction], load: Instruction) -> Instruction | None:
    return next((item for item in after if load.operands[0] in registers_of(item.operands)), None)


def _contended(listing: Listing, requests: Iterable[LaneRequest]) -> int | None:
    """Return the line of an atomic operation of all lanes on one address."""
    for request in requests:
        item = listing.code[request.index]
        if kind_of(item) != "atomic" or request.address is None or _of_one_lane(listing.code[: request.index + 1]):
            continue
        if request.address.uniform and int(request.active.sum()) > 1:
            return item.line or 0
    return None


def _of_one_lane(code: Sequence[Instruction]) -> bool:
    """Return whether a comparison for equality may choose one lane for the last instruction; a bound chooses many."""
    conditional = [index for index, item in enumerate(code) if item.guard and item.name in ("BRA", "EXIT")]
    conditional += [len(code) - 1] if code[-1].guard else []
    for index in conditional:
        predicate = code[index].guard.lstrip("@!")
        set_by = next((item for item in reversed(code[:index]) if predicate in item.operands[:2]), None)
        if set_by is None or not set_by.name.endswith("ISETP") or set_by.has("EQ") or set_by.has("NE"):
            return True
    return False
