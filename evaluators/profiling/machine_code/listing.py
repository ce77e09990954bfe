"""SASS as nvdisasm prints it, read into instructions with their source lines, basic blocks and loops."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

_FUNCTION = re.compile(r"^\.text\.(\S+):")
_LABEL = re.compile(r"^(\.L_\w+):")
_LINE = re.compile(r'//## File "([^"]*)", line (\d+)(?: inlined at "([^"]*)", line (\d+))?')
_CODE = re.compile(r"^\s*/\*([0-9a-f]+)\*/\s+(?:@(!?)(U?P\w+)\s+)?([A-Z][\w.]*)\s*(.*?)\s*;")
_TARGET = re.compile(r"`\((\.L_\w+)\)")
_REGISTER = re.compile(r"(?<![\w.])(U?R\d+|U?P\d|B\d)(?!\w)")
_ENDS = ("BRA", "EXIT", "RET", "BRX")
LARGEST = 12_000
"""Instructions of a kernel beyond which it is not analysed: unrolled so far it takes many seconds."""


@dataclass(frozen=True)
class Instruction:
    """One machine instruction."""

    address: int
    guard: str
    """The predicate under which it executes, such as 'P0' or '!UP3'; '' if always."""
    opcode: str
    """With its suffixes: 'LDG.E.128'."""
    operands: tuple[str, ...]
    line: int | None
    """Line in the kernel's own file."""
    target: str = ""
    """Label to which it branches."""

    @property
    def name(self) -> str:
        """The opcode without suffixes."""
        return self.opcode.partition(".")[0]

    def has(self, suffix: str) -> bool:
        """Return whether the opcode has a suffix, such as '128'."""
        return suffix in self.opcode.split(".")[1:]


@dataclass
class Block:
    """A basic block: instructions `start` up to `end`, and the blocks that may follow."""

    start: int
    end: int
    successors: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class CodeLoop:
    """Instructions from the target of a backward branch to the branch, both included."""

    start: int
    end: int

    def __contains__(self, index: int) -> bool:
        return self.start <= index <= self.end


@dataclass
class Listing:
    """One kernel's code."""

    name: str
    code: list[Instruction]
    labels: dict[str, int]
    """Index of the first instruction after each label."""

    def loops(self) -> list[CodeLoop]:
        """Return the loops in the order of their starts; the endless loop after the end of a kernel is none."""
        found: dict[int, int] = {}
        for index, item in enumerate(self.code):
            start = self.labels.get(item.target) if item.name == "BRA" else None
            if start is not None and start < index:
                found[start] = max(index, found.get(start, 0))
        return [CodeLoop(start, end) for start, end in sorted(found.items())]

    def blocks(self) -> list[Block]:
        """Return the basic blocks in the order of the code."""
        starts = {0, *(at for at in self.labels.values() if at < len(self.code))}
        ends = {index + 1 for index, item in enumerate(self.code) if item.name in _ENDS}
        cuts = sorted({*starts, *(at for at in ends if at < len(self.code)), len(self.code)})
        blocks = [Block(start, end) for start, end in itertools.pairwise(cuts)]
        number = {block.start: index for index, block in enumerate(blocks)}
        for index, block in enumerate(blocks):
            last = self.code[block.end - 1]
            if last.name == "BRA" and self.labels.get(last.target) in number:
                block.successors.append(number[self.labels[last.target]])
            conditional = bool(last.guard) or (last.name == "BRA" and len(last.operands) > 1)
            if (conditional or last.name not in _ENDS) and index + 1 < len(blocks):
                block.successors.append(index + 1)
        return blocks


def read_listing(text: str) -> Iterator[Listing]:
    """Yield the kernels of `nvdisasm -c -gi`, of which each section `.text.NAME` is one."""
    current: Listing | None = None
    own_file, line, fresh = "", None, True
    places: list[tuple[str, int]] = []
    for row in text.splitlines():
        if named := _FUNCTION.match(row):
            if current is not None:
                yield _ended(current)
            current, own_file, line = Listing(named[1], [], {}), "", None
        elif current is None:
            continue
        elif label := _LABEL.match(row):
            current.labels[label[1]] = len(current.code)
        elif place := _LINE.search(row):
            # The comments before an instruction go from the innermost function to the kernel.
            places = [] if fresh else places
            fresh = False
            places.append((place[1], int(place[2])))
            if place[3]:
                places.append((place[3], int(place[4])))
        elif found := _CODE.match(row):
            if not fresh:
                own_file = own_file or places[-1][0]
                line = next((number for name, number in reversed(places) if name == own_file), None)
                fresh = True
            current.code.append(_instruction(found, line))
    if current is not None:
        yield _ended(current)


def _instruction(found: re.Match[str], line: int | None) -> Instruction:
    address, negated, guard, opcode, operands = found.groups()
    target = _TARGET.search(operands)
    guard = negated + guard if guard else ""
    items = tuple(item.strip().replace(".reuse", "") for item in operands.split(",")) if operands else ()
    return Instruction(int(address, 16), guard, opcode, items, line, target[1] if target else "")


def _ended(listing: Listing) -> Listing:
    """Remove the padding: from the branch to itself after the last exit on."""
    code = listing.code
    for index, item in enumerate(code):
        if item.name == "BRA" and not item.guard and listing.labels.get(item.target) == index:
            if all(later.name in ("NOP", "BRA") for later in code[index:]):
                listing.code = code[:index]
            break
    while listing.code and listing.code[-1].name == "NOP":
        listing.code.pop()
    return listing


def registers_of(operands: Sequence[str]) -> set[str]:
    """Return the registers and predicates that operands name, without the further ones of wide operands."""
    return {name for operand in operands for name in _REGISTER.findall(operand)}


def wide(register: str, words: int) -> list[str]:
    """Return a register and those after it: 'R4' of two words is R4 and R5."""
    prefix, number = ("UR", register[2:]) if register.startswith("UR") else ("R", register[1:])
    return [f"{prefix}{int(number) + word}" for word in range(words)]
