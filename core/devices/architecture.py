"""Kinds of devices: their architectures, the limits of each, and GPUs that have them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

WARP = 32
"""Threads of a warp, where an architecture does not say otherwise."""


@dataclass(frozen=True)
class Card:
    """A GPU on the market, by published figures (docs/devices.md has their sources). Nothing here is measured."""

    name: str
    """As the driver reports it."""
    multiprocessors: int
    """As torch counts them: multiprocessors, compute units, or work group processors of two compute units."""
    memory_bytes: int
    l2_bytes: int
    clock_mhz: int
    """Maximum clock of the multiprocessors."""
    memory_gb_s: float | None = None
    """Bandwidth of the memory in 1e9 bytes per second; None if it is not stated."""
    tflop_s: Mapping[str, float] = field(default_factory=dict)
    """Peak rates of dense matrix products in 1e12 operations per second, by torch's names of dtypes and 'tfloat32'."""


@dataclass(frozen=True)
class Architecture:
    """The limits of an architecture's multiprocessors and blocks, and what its instructions can do."""

    name: str
    """'sm_90', 'gfx942'."""
    generation: str
    """'Hopper', 'CDNA 3'."""
    triton: int | str
    """Name in Triton's target: 90, 'gfx942'."""
    suffix: str
    """Name in files of engines: '90', 'gfx942'."""
    warps: int
    """Maximum number of resident warps (waves) of a multiprocessor."""
    blocks: int
    """Maximum number of resident blocks (work groups) of a multiprocessor."""
    shared_bytes: int
    """Shared memory (LDS) of a multiprocessor."""
    block_shared_bytes: int
    """The part of it that one block may have."""
    matrix: tuple[str, ...]
    """Kinds of its matrix instructions, as `CompiledKernel.tensor_cores` has them: 'wgmma', 'mfma'."""
    cards: Mapping[str, Card]
    """GPUs by short names; the first one stands for the architecture where no GPU is named."""
    registers: int = 65_536
    """32-bit registers of a multiprocessor."""
    block_registers: int = 65_536
    """The most of them that one block may take."""
    thread_registers: int = 255
    """The most that a thread may have before it spills."""
    register_unit: int = 256
    """Registers are allocated to a warp in multiples of this."""
    partitions: int = 4
    """A multiprocessor's registers are split into this many parts, and a warp's are all in one."""
    shared_unit: int = 128
    """Shared memory is allocated in multiples of this many bytes."""
    shared_reserved: int = 0
    """Bytes of every block's shared memory that the system reserves."""
    warp_size: int = WARP
    float8: tuple[str, ...] = ()
    """Dtypes of eight bits that its matrix instructions take."""
    block_scaled: tuple[str, ...] = ()
    """Formats of operands with a scale for each few numbers that its matrix instructions take: 'mxfp8', 'nvfp4'."""
    descriptors: bool = False
    """Whether it copies tiles by tensor descriptors."""
    asynchronous: bool = False
    """Whether its matrix units read their operands from shared memory while warps do other work."""
    warp_groups: bool = False
    """Whether its matrix instructions are those of groups of four warps (wgmma)."""
    fma_bytes: float = 4096.0
    """Fused multiply-adds per clock of a multiprocessor, times the bytes of an operand. It only ranks configs, and is
    Hopper's for all of NVIDIA's."""
    memory_cache_bytes: int = 0
    """A cache between L2 and memory, which drivers do not report: AMD's Infinity Cache."""
    special_functions: int | None = None
    """Results of exp2, log2, rsqrt, sin, ... per clock and multiprocessor; None if it is not stated."""

    @property
    def accumulators(self) -> int:
        """fp32 registers of a thread that a result tile may take: three quarters, to a multiple of 64."""
        return -(-self.thread_registers * 3 // 4 // 64) * 64

    @property
    def threads(self) -> int:
        """Maximum number of resident threads of a multiprocessor."""
        return self.warps * self.warp_size

    @property
    def card(self) -> Card:
        """The GPU that stands for the architecture."""
        return next(iter(self.cards.values()))


@dataclass(frozen=True)
class DeviceKind:
    """One kind of device: a file of `core.devices`, or of a package that declares it."""

    id: str
    """The backend of Triton's targets: 'cuda', 'hip'."""
    architectures: tuple[Architecture, ...]
    """Described architectures, the oldest first."""
    named: Callable[[Mapping[str, Any]], str | None]
    """The name of the architecture of a GPU with these properties of torch's; None if it is of another kind."""
    properties: Callable[[Architecture, Card], dict[str, Any]]
    """Torch's properties, as far as they are specific to the kind, of a described GPU that is not opened."""
    like: Callable[[str], Architecture | None]
    """An architecture that is not described, by its name, with what is known of its features; None if nothing is."""
    options: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Options of its Triton compiler that others do not have, each with the values that are worth a trial."""
