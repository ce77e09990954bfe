"""Follows the addresses of a warp's lanes through a kernel's machine code, by abstract interpretation.

Each register has a `LaneValue`, or nothing is known of it. Where paths join, what holds on all of them is kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .listing import Instruction, Listing, wide
from .values import (
    COMPARISONS,
    LANE,
    LANES,
    THREAD,
    Lanes,
    LaneValue,
    add,
    bitwise,
    exact,
    join,
    multiply,
    shift_left,
    shift_right,
    unknown,
)  # fmt: skip

State = dict[str, "LaneValue | Lanes | None"]
"""Registers with their values, and predicates with their lanes; 'active' has the lanes that execute."""
_NUMBER = re.compile(r"^-?(?:0x[0-9a-f]+|\d+)$")
_CONSTANT = re.compile(r"c\[0x\w+\]\[(0x[0-9a-f]+|RZ)\]")
_PREDICATE = re.compile(r"^!?U?P(?:\d|T)$")
_ALL = np.ones(LANES, dtype=bool)
_BLOCK_WIDTH = 0x0
"""Offset of blockDim.x in the constants of a launch."""
_VISITS = 8
"""Visits of a block after which steps are given up, so that the analysis ends."""
MEMORY = {
    "LDG": "global", "STG": "global", "LD": "global", "ST": "global", "LDGSTS": "global", "RED": "global",
    "REDG": "global", "ATOM": "global", "ATOMG": "global", "LDS": "shared", "STS": "shared", "LDSM": "shared",
    "STSM": "shared",
}  # fmt: skip
_ADDRESS = re.compile(r"\[([^\[\]]*)\]$")
_WIDTHS = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "16": 2, "64": 8, "128": 16, "256": 32}


@dataclass(frozen=True)
class LaneRequest:
    """One instruction's access to memory by a warp."""

    index: int
    space: str
    store: bool
    width: int
    address: LaneValue | None
    active: Lanes
    rows: bool = False
    """Whether each lane's address is that of a row of a matrix, in shared memory (ldmatrix)."""


def follow(listing: Listing) -> Iterator[LaneRequest]:
    """Yield the accesses of a kernel in the order of its code."""
    blocks = listing.blocks()
    entry: list[State | None] = [None] * len(blocks)
    entry[0] = {"active": _ALL}
    visits = [0] * len(blocks)
    queue = [0]
    while queue:
        number = queue.pop(0)
        visits[number] += 1
        state = dict(entry[number] or {})
        for item in listing.code[blocks[number].start : blocks[number].end]:
            _execute(item, state)
        last = listing.code[blocks[number].end - 1]
        for position, after in enumerate(blocks[number].successors):
            leaving = dict(state)
            if last.name == "BRA" and last.guard and isinstance(taken := _predicate(last.guard, state), np.ndarray):
                way = taken if position == 0 and last.target else ~taken
                leaving["active"] = _active(state) & way
            known = entry[after]
            joined = leaving if known is None else _joined(known, leaving, visits[after] > _VISITS)
            if known is None or not _same(known, joined):
                entry[after] = joined
                if after not in queue:
                    queue.append(after)
    for number, block in enumerate(blocks):
        state = dict(entry[number] or {"active": _ALL})
        for index in range(block.start, block.end):
            item = listing.code[index]
            if item.name in MEMORY:
                yield from _requests(index, item, state)
            _execute(item, state)


def _active(state: State) -> Lanes:
    found = state["active"]
    assert isinstance(found, np.ndarray)
    return found


def _joined(left: State, right: State, give_up: bool) -> State:
    found: State = {"active": _active(left) | _active(right)}
    for name in left.keys() & right.keys() - {"active"}:
        before, after = left[name], right[name]
        if isinstance(before, np.ndarray) or isinstance(after, np.ndarray):
            if isinstance(before, np.ndarray) and isinstance(after, np.ndarray) and np.array_equal(before, after):
                found[name] = before
            continue
        kept = join(before, after)
        if kept is not None and give_up and before is not None and not kept.same(before):
            kept = LaneValue(kept.lanes, 1, kept.sources)
        if kept is not None:
            found[name] = kept
    return found


def _same(left: State, right: State) -> bool:
    if left.keys() != right.keys():
        return False
    for name, before in left.items():
        after = right[name]
        if isinstance(before, LaneValue) and isinstance(after, LaneValue):
            if not before.same(after):
                return False
        elif not np.array_equal(before, after):  # type: ignore[arg-type]
            return False
    return True


def _predicate(text: str, state: State) -> Lanes | None:
    name = text.removeprefix("!")
    if name in ("PT", "UPT"):
        found: LaneValue | Lanes | None = _ALL
    else:
        found = state.get(name)
    if not isinstance(found, np.ndarray):
        return None
    return ~found if text.startswith("!") else found


def value_of(operand: str, state: State) -> LaneValue | None:
    """Return what is known of an operand: a register, a number or a constant of the launch."""
    text = operand
    if _NUMBER.match(text):
        return exact(int(text, 0))
    if constant := _CONSTANT.search(text):
        offset = 0 if constant[1] == "RZ" else int(constant[1], 16)
        return unknown(LANES) if offset == _BLOCK_WIDTH else unknown(1, constant[1])
    negative, text = text.startswith("-"), text.removeprefix("-")
    name, _, suffix = text.partition(".")
    if name in ("RZ", "URZ", "SRZ"):
        return exact(0)
    found = state.get(name)
    if not isinstance(found, LaneValue):
        return None
    if suffix.startswith("X") and suffix[1:].isdigit():
        found = multiply(found, exact(int(suffix[1:])))
    return multiply(found, exact(-1)) if negative else found


def _requests(index: int, item: Instruction, state: State) -> Iterator[LaneRequest]:
    guard = _predicate(item.guard, state) if item.guard else _ALL
    active = _active(state) & (_ALL if guard is None else guard)
    store = item.name in ("STG", "ST", "STS", "STSM", "RED", "REDG", "ATOM", "ATOMG")
    width = next((_WIDTHS[part] for part in item.opcode.split(".")[1:] if part in _WIDTHS), 4)
    rows = item.name in ("LDSM", "STSM")
    places = [place for operand in item.operands if (place := _ADDRESS.search(operand))]
    if item.name == "LDGSTS":
        if len(places) >= 2:
            yield LaneRequest(index, "shared", True, width, _address(places[0][1], state), active)
            yield LaneRequest(index, "global", False, width, _address(places[-1][1], state), active)
        return
    if places:
        address = _address(places[-1][1], state)
        yield LaneRequest(index, MEMORY[item.name], store, 16 if rows else width, address, active, rows)


def _address(text: str, state: State) -> LaneValue | None:
    total: LaneValue | None = exact(0)
    for term in text.replace("+-", "+ -").split("+"):
        if term.strip():
            total = add(total, value_of(term.strip(), state))
    return total


def _execute(item: Instruction, state: State) -> None:
    """Change the state as an instruction does."""
    guard = _predicate(item.guard, state) if item.guard else _ALL
    if item.name == "EXIT":
        if guard is not None:
            state["active"] = _active(state) & ~guard
        return
    if item.name in ("CALL", "BRX"):
        kept = state["active"]
        state.clear()
        state["active"] = kept
        return
    for name, value in _results(item, state).items():
        if guard is not None and guard.all():
            state[name] = value
        elif guard is None or guard.any():
            old = state.get(name)
            if isinstance(old, LaneValue) and isinstance(value, LaneValue):
                value = _chosen(guard, value, old)
            else:
                value = None
            state[name] = value
        if state.get(name) is None:
            state.pop(name, None)


def _chosen(guard: Lanes | None, value: LaneValue, otherwise: LaneValue) -> LaneValue | None:
    """Return a value where `guard` holds, and another elsewhere; the guard may be unknown."""
    if guard is None:
        return join(value, otherwise)
    if value.step == otherwise.step and value.sources == otherwise.sources:
        return LaneValue(np.where(guard, value.lanes, otherwise.lanes), value.step, value.sources)
    return None


def _results(item: Instruction, state: State) -> dict[str, LaneValue | Lanes | None]:
    """Return the registers and predicates that an instruction sets, with what is known of them."""
    name, operands = item.name, list(item.operands)
    stores = name in ("STG", "ST", "STS", "STL", "RED", "REDG", "STSM", "BAR", "BRA", "LDGSTS", "DEPBAR", "NOP")
    if stores or not operands:
        return {}
    if name in ("ISETP", "UISETP"):
        return {operands[0]: _compared(item, state)}
    if name in ("ELECT",):
        return {operands[0]: LANE.lanes == 0}
    flags = []
    while operands and _PREDICATE.match(operands[0]):
        flags.append(operands.pop(0))
    if not operands:
        return dict.fromkeys(flags)
    target, *rest = operands
    value = _computed(item, [part for part in rest if not _PREDICATE.match(part)], rest, state)
    found: dict[str, LaneValue | Lanes | None] = dict.fromkeys(flags)
    if name in ("LOP3", "ULOP3") and flags and value is not None and value.step == 0:
        found[flags[0]] = value.lanes != 0
    if target in ("RZ", "URZ") or not re.match(r"^U?R\d+$", target):
        return found
    words = 2 if item.has("64") or item.has("WIDE") else 4 if item.has("128") else 1
    first, *others = wide(target, words)
    found |= dict.fromkeys(others)
    found[first] = value
    if name in ("LDC", "ULDC") and (constant := _CONSTANT.search(rest[0])) and constant[1] != "RZ":
        offset = int(constant[1], 16)  # several parameters, or the halves of one
        found |= {other: unknown(1, f"{offset + 4 * word:#x}") for word, other in enumerate(others, 1)}
    if name == "CS2R":
        found |= dict.fromkeys(wide(target, 1 if item.has("32") else 2), value)
    return found


def _compared(item: Instruction, state: State) -> Lanes | None:
    comparison = next((COMPARISONS[part] for part in item.opcode.split(".")[1:] if part in COMPARISONS), None)
    if comparison is None or item.has("EX") or len(item.operands) < 4:
        return None
    left, right = value_of(item.operands[2], state), value_of(item.operands[3], state)
    if left is None or right is None or left.step or right.step:
        return None
    found: Lanes = comparison(left.lanes, right.lanes)
    also = _predicate(item.operands[4], state) if len(item.operands) > 4 else _ALL
    if also is None:  # a bound, which is taken to hold where it matters: otherwise no lane goes on
        return None if (found == found[0]).all() else found
    return found | also if item.has("OR") else found & also


def _computed(item: Instruction, given: list[str], rest: list[str], state: State) -> LaneValue | None:
    """Return the value of an instruction's result."""
    if item.name in ("S2R", "S2UR", "CS2R"):
        return _special(given[0])
    if item.name in ("LDC", "ULDC"):
        return value_of(given[0], state) or unknown()
    values = [value_of(part, state) for part in given]
    match item.name:
        case "MOV" | "UMOV" | "R2UR":
            return values[-1] if item.name != "R2UR" else values[0]
        case "HFMA2" if given[0] == "-RZ" and given[-2:] == ["0", "0"]:
            return exact(0)
        case "IADD3" | "UIADD3" | "VIADD" | "IADD" if not item.has("X"):
            total: LaneValue | None = exact(0)
            for value in values[:3]:
                total = add(total, value)
            return total
        case "IMAD" | "UIMAD" if not (item.has("X") or item.has("HI")):
            return add(multiply(values[0], values[1]), values[2])
        case "LEA" | "ULEA" if not item.has("HI"):
            return add(shift_left(values[0], values[2]), values[1])
        case "SHF" | "USHF" if item.has("L") and not item.has("U64") and not item.has("HI"):
            return shift_left(values[0], values[1])
        case "SHF" | "USHF" if item.has("R") and item.has("HI"):
            return shift_right(values[2], values[1])
        case "LOP3" | "ULOP3" if len(values) >= 4 and values[3] is not None:
            return bitwise(int(values[3].lanes[0]), values[:3])
        case "SGXT" | "USGXT" if item.has("U32") and values[1] is not None and not values[1].step:
            mask = exact((1 << int(values[1].lanes[0])) - 1)
            return bitwise(0xC0, [values[0], mask, exact(0)])
        case "SEL" | "USEL":
            guard = _predicate(rest[2], state)
            chosen, otherwise = values[0], values[1]
            return None if chosen is None or otherwise is None else _chosen(guard, chosen, otherwise)
        case "SHFL" if item.has("IDX") and values[0] is not None:
            chosen = values[1]
            if chosen is not None and chosen.step == 0 and chosen.uniform:
                lane = int(chosen.lanes[0]) % LANES
                return LaneValue(np.full(LANES, values[0].lanes[lane]), values[0].step, values[0].sources)
    if item.name in MEMORY and (place := _ADDRESS.search(rest[-1] if rest else "")):
        values = [_address(place[1], state)]
    return unknown() if values and all(value is not None and value.uniform for value in values) else None


def _special(register: str) -> LaneValue | None:
    if register == "SR_TID.X":
        return THREAD
    if register == "SR_LANEID":
        return LANE
    if register == "SRZ":
        return exact(0)
    shared = ("SR_TID", "SR_CTAID", "SR_CgaCtaId", "SR_NTID", "SR_NCTAID", "SR_CLOCK", "SR_GLOBALTIMER")
    return unknown() if register.startswith(shared) else None
