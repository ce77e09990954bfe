"""The table of causes: what each needs to be known, what it means, and the function that finds it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from . import counters, launches, machine_code, work
from .observed import Cause, Observed

Found = Iterator[tuple[float, str]]
"""Possible speedups by fixing the cause, each with the line that says why."""


class FoundBy(StrEnum):
    """The data by which a cause is found."""

    TIME = "time and work"
    LAUNCHES = "launches"
    CODE = "machine code"
    COUNTERS = "counters"


@dataclass(frozen=True)
class CauseRow:
    """One cause."""

    category: str
    """One of `BOTTLENECKS`."""
    name: str
    facts: FoundBy
    find: Callable[[Observed], Found]
    meaning: str
    """For the documentation: when it is reported."""

    def causes(self, seen: Observed) -> Iterator[Cause]:
        """Yield the cause for each kernel that has it."""
        for factor, text in self.find(seen):
            yield Cause(self.category, self.name, factor, text)


UNEXPLAINED = "unexplained time"
"""The cause of what no other explains."""
_MEMORY, _COMPUTE, _PARALLEL, _ALGORITHM = "memory", "compute", "parallelism", "algorithm"

IDLE = (
    CauseRow(_PARALLEL, "idle cores", FoundBy.TIME, work.idle_cores, "a CPU's cores are idle"),
    CauseRow(_ALGORITHM, "launches", FoundBy.LAUNCHES, launches.gaps, "kernels run in less than 80 % of the call"),
    CauseRow(_PARALLEL, "small grid", FoundBy.LAUNCHES, launches.small_grid, "fewer blocks than multiprocessors"),
    CauseRow(_PARALLEL, "last wave", FoundBy.LAUNCHES, launches.last_wave, "the last wave of blocks leaves GPU idle"),
)
"""Causes for which processors have nothing to do. The time that they explain is not attributed to others."""
WITHIN = (
    CauseRow(_PARALLEL, "occupancy", FoundBy.LAUNCHES, launches.occupancy,
             "a quarter of a multiprocessor's warps or less; machine code shows the cycles in which none issues"),
    CauseRow(_MEMORY, "uncoalesced access", FoundBy.CODE, machine_code.uncoalesced,
             "lanes of a warp access addresses far apart: more sectors than the bytes need"),
    CauseRow(_MEMORY, "narrow loads", FoundBy.CODE, machine_code.narrow,
             "loads of at most 4 bytes per lane where 16 would do"),
    CauseRow(_MEMORY, "bank conflicts", FoundBy.CODE, machine_code.bank_conflicts,
             "lanes of a warp access different words of one bank of shared memory"),
    CauseRow(_MEMORY, "repeated reads", FoundBy.CODE, machine_code.repeated_reads,
             "several loops in sequence read the same tensor"),
    CauseRow(_MEMORY, "copies through registers", FoundBy.CODE, machine_code.register_copies,
             "a loop loads into registers what it only stores to shared memory"),
    CauseRow(_MEMORY, "few loads in flight", FoundBy.CODE, machine_code.few_loads,
             "resident warps request less than bandwidth times latency before they wait"),
    CauseRow(_PARALLEL, "idle lanes", FoundBy.CODE, machine_code.idle_lanes,
             "lanes of a warp are masked off, or repeat another lane's access"),
    CauseRow(_PARALLEL, "contended atomics", FoundBy.CODE, machine_code.contended,
             "all lanes of a warp update one address"),
    CauseRow(_COMPUTE, "register spills", FoundBy.CODE, machine_code.spills,
             "the hottest code moves registers to and from local memory"),
    CauseRow(_COMPUTE, "serial wgmma", FoundBy.CODE, machine_code.serial_products,
             "a loop waits for each wgmma before it issues the next"),
    CauseRow(_COMPUTE, "no tensor cores", FoundBy.CODE, machine_code.no_tensor_cores,
             "matrix products run on the vector units"),
    CauseRow(_COMPUTE, "mma instead of wgmma", FoundBy.CODE, machine_code.old_products,
             "a kernel on Hopper uses the instruction of older GPUs"),
    CauseRow(_COMPUTE, "double precision", FoundBy.CODE, machine_code.double_precision,
             "fp64 arithmetic in the hottest code, often by a constant or a cast"),
    CauseRow(_COMPUTE, "special functions", FoundBy.CODE, machine_code.special_functions,
             "exponentials, roots and divisions exceed their units' rate"),
    CauseRow(_COMPUTE, "dependent instructions", FoundBy.CODE, machine_code.dependent,
             "each instruction waits for the one before, and too few warps are resident"),
    CauseRow(_COMPUTE, "address arithmetic", FoundBy.CODE, machine_code.address_arithmetic,
             "most instructions compute addresses and masks"),
    CauseRow(_MEMORY, "uncoalesced access", FoundBy.COUNTERS, counters.unused_bytes,
             "less than half of the bytes of loaded sectors are used"),
    CauseRow(_MEMORY, "bank conflicts", FoundBy.COUNTERS, counters.bank_conflicts,
             "more than 10 % of shared memory's passes are conflicts"),
    CauseRow(_MEMORY, "extra traffic", FoundBy.COUNTERS, counters.extra_traffic,
             "device memory moves 1.3 times what must move; with a low hit rate of L2 it thrashes"),
    CauseRow(_PARALLEL, "idle lanes", FoundBy.COUNTERS, counters.idle_lanes, "fewer than 24 lanes execute on average"),
    CauseRow(_COMPUTE, "stalls", FoundBy.COUNTERS, counters.stalls, "the most frequent stall, with what it means"),
)  # fmt: skip
"""Causes within a kernel. The largest of them explains part of the rest."""
ROOFLINE = (
    CauseRow(_MEMORY, "traffic", FoundBy.TIME, work.traffic, "a remark: the bandwidth that was reached"),
    CauseRow(_COMPUTE, "rate", FoundBy.TIME, work.rate, "a remark: the rate of matrix products that was reached"),
    CauseRow(_MEMORY, "traffic", FoundBy.TIME, work.floor, "a remark: the time over its floor"),
    CauseRow(_COMPUTE, "matrix rate", FoundBy.TIME, work.matrix_rate, "the floor is that of matrix products"),
    CauseRow(_MEMORY, "data reuse", FoundBy.TIME, work.data_reuse, "the same, by more reuse of loaded data"),
    CauseRow(_MEMORY, "memory bandwidth", FoundBy.TIME, work.bandwidth, "within twice the floor of memory"),
    CauseRow(_COMPUTE, "instructions", FoundBy.TIME, work.instructions,
             "on a CPU beyond twice the floor of memory: instructions, not memory"),
    CauseRow(_COMPUTE, UNEXPLAINED, FoundBy.TIME, work.unexplained,
             "on a GPU beyond twice the floor of memory: what no cause explains"),
    CauseRow(_MEMORY, "access pattern", FoundBy.TIME, work.access_pattern, "the same, by fewer or wider accesses"),
)  # fmt: skip
"""What remains, by the roofline."""
OTHERS = (
    CauseRow(_COMPUTE, "register spills", FoundBy.LAUNCHES, launches.spills,
             "spilled bytes, where no machine code shows what they cost"),
    CauseRow(_ALGORITHM, "library kernels", FoundBy.LAUNCHES, launches.library, "time in kernels of a library"),
    CauseRow(_COMPUTE, "throughput", FoundBy.COUNTERS, counters.throughput, "a remark: how busy each unit was"),
    CauseRow(_ALGORITHM, "intermediates", FoundBy.LAUNCHES, launches.intermediates,
             "several kernels, or unfused operators of the reference"),
)  # fmt: skip
CAUSES = (*IDLE, *WITHIN, *ROOFLINE, *OTHERS)
