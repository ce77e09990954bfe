"""Facts of a kernel's machine code that decide its speed; `evaluators.profiling.machine_code` reads them from SASS."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

# They come from a process of the candidate's, so nothing is unbounded.
_Count = Annotated[int, Field(ge=0, le=10**9)]
_Some = Annotated[int, Field(ge=1, le=10**9)]
_Line = Annotated[int, Field(ge=0, le=10**9)] | None
_Cycles = Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)]
_BySort = Annotated[dict[str, _Count], Field(max_length=20)]
SECTOR = 32
"""Bytes of a sector: the unit in which device memory, L2 and L1 move data."""


class MemoryAccess(BaseModel):
    """The loads or stores of one source line, of one width, by one warp. Counts are of instructions in the code."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    space: Literal["global", "shared"]
    store: bool
    line: _Line = None
    """Line in the kernel's file; None without line information."""
    width: _Some
    """Bytes per lane and instruction."""
    count: _Some
    """Instructions."""
    in_loop: bool
    known: _Count
    """Instructions whose addresses are known up to a constant that all lanes share; the figures below are of those."""
    requests: _Count = 0
    """Sectors that the instructions touch; for shared memory, passes through its banks."""
    needed: _Count = 0
    """The least for the same bytes: sectors without a gap, passes without a conflict."""
    stride: Annotated[int, Field(ge=-(2**40), le=2**40)] | None = None
    """Bytes from one lane's address to the next one's; None if it varies."""
    lanes: int = Field(default=32, ge=1, le=32)
    """Lanes of the warp that access an address of their own."""
    mergeable: _Count = 0
    """Bytes that one lane reads from consecutive addresses with several instructions; 0 if each stands alone."""

    @model_validator(mode="after")
    def _has_a_least(self) -> MemoryAccess:
        if self.known and not self.needed:
            raise ValueError("known requests without the least that they need")
        return self


class LongestWait(BaseModel):
    """The longest wait of a warp that executes the hottest code alone."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    cycles: _Cycles
    """Cycles per pass through the code."""
    producer: str = Field(max_length=40, pattern=r"^[a-z -]+$")
    """The awaited instruction: 'load', 'shared memory', 'wgmma', 'barrier', 'arithmetic', 'special function', ..."""
    produced_line: _Line = None
    line: _Line = None
    """Line of the instruction that waits."""


class CompiledCode(BaseModel):
    """One kernel's machine code. The hottest code is its innermost loop with most instructions, or all without one."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    loops: bool
    """Whether there is a loop."""
    hot: _Some
    """Instructions of the hottest code."""
    mix: _BySort = Field(default_factory=dict)
    """Instructions of the hottest code by kind: 'fp32', 'fp64', 'integer', 'special', 'conversion', 'global', 'shared',
    'local', 'constant', 'shuffle', 'matrix', 'barrier', 'atomic', 'other'."""
    lines: _BySort = Field(default_factory=dict)
    """The source line of each kind in the hottest code, where most of its instructions are."""
    accesses: tuple[MemoryAccess, ...] = Field(default=(), max_length=100)
    passes: tuple[Annotated[tuple[_Count, ...], Field(max_length=100)], ...] = Field(default=(), max_length=100)
    """For each tensor that several loops in sequence read: a line of each of those loops."""
    serial_products: _Count = 0
    """Waits for all wgmma in flight, in a loop that issues them."""
    serial_line: _Line = None
    products: _Count = 0
    """Groups of wgmma that such a loop commits."""
    copied: _Count = 0
    """Loads in a loop whose value only goes to shared memory: copies that pass registers."""
    copied_line: _Line = None
    contended: _Line = None
    """Line of an atomic operation whose address all lanes share; 0 if its line is unknown."""
    busy: _Some = 1
    """Instructions issued per pass through the hottest code."""
    cycles: Annotated[float, Field(gt=0, le=1e12, allow_inf_nan=False)] = 1.0
    """Cycles per pass of a warp that is alone, by an in-order model with published latencies."""
    matrix_cycles: _Cycles = 0.0
    """Cycles of these in which the tensor cores work for this warp's group."""
    wait: LongestWait | None = None
    in_flight: _Count = 0
    """Bytes that a warp has requested from global memory when it first waits for them, in the hottest code with such
    loads."""
