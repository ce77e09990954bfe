"""Runs a kernel of several warp groups on the CPU: each group in its own thread, one at a time, in an order by chance.

What is asynchronous on the device ends as late as it may: a product, or a store, when its group waits for it. A tile
that is overwritten too early, or read too early, or a turn that is taken out of order, then gives wrong values; groups
that all wait for each other are an error.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from ..agent.tilelang_interpreter import Buffer, Frame, Language, TileLang

THREADS, LOADING = 128, 32


class Turns:
    """Lets one of several threads run at a time; at each pause another may go on."""

    def __init__(self, count: int, seed: int) -> None:
        self._rng = random.Random(seed)
        self._changed = threading.Condition()
        self._until: dict[int, Callable[[], bool]] = dict.fromkeys(range(count), lambda: True)
        self._running = 0
        self.deadlock = False

    def pause(self, me: int, until: Callable[[], bool] = lambda: True) -> None:
        """Go on when chance says so, and not before the condition holds."""
        with self._changed:
            self._until[me] = until
            self._pass_on()
            self._changed.wait_for(lambda: self._running == me or self.deadlock, timeout=30)
            assert self._running == me and not self.deadlock, "the groups wait for each other"

    def wait_for_start(self, me: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self._running == me or self.deadlock, timeout=30)

    def leave(self, me: int) -> None:
        with self._changed:
            del self._until[me]
            if self._until:
                self._pass_on()

    def _pass_on(self) -> None:
        ready = [number for number, until in self._until.items() if until()]
        self.deadlock |= not ready
        self._running = self._rng.choice(ready) if ready else -1
        self._changed.notify_all()


class Barrier:
    """An mbarrier, or a named barrier: counts arrivals, awaited bytes, and the phases that are over."""

    def __init__(self, count: int) -> None:
        self.count, self.arrived, self.missing, self.phase = count, 0, 0, 0
        self.twins = [self]

    def arrive(self, threads: int = THREADS) -> None:
        self.arrived += threads
        assert self.arrived <= self.count, "more threads arrive than the barrier counts"
        self._advance()

    def expect(self, elements: int) -> None:
        self.missing += elements

    def complete(self, elements: int) -> None:
        self.missing -= elements
        self._advance()

    def _advance(self) -> None:
        if self.arrived == self.count and not self.missing:
            self.arrived, self.phase = 0, self.phase + 1


class Cluster(Frame):
    """`with T.Kernel(...)` where the programs of a cluster run beside each other."""

    def __init__(self, language: WarpGroups) -> None:
        super().__init__()
        self.language = language

    def __call__(self, *grid: int, threads: int, cluster_dims: int = 1) -> Frame:
        assert cluster_dims == self.language.programs and grid[0] % cluster_dims == 0
        return super().__call__(*grid, threads=threads)

    def __enter__(self) -> Any:
        return self.block + self.language.mine.program


class WarpGroups(Language):
    """What `T` stands for; the names of `Language` that a group may use, and those of roles."""

    def __init__(self, seed: int, groups: int, programs: int) -> None:
        super().__init__()
        self.seed, self.groups, self.programs = seed, groups, programs
        self.mine = threading.local()
        self.Kernel = Cluster(self)
        self.copy_tile = super().copy
        self.alloc_shared, self.alloc_fragment = self._shared, self._alloc
        self.macro: Callable[[Any], Any] = lambda function: function
        self.serial = range
        self.alloc_local = lambda shape, _: [0] * shape[0]
        self.exp2 = np.exp2
        self.set_max_nreg = self.warpgroup_fence_operand = self.fence_proxy_async = lambda *_, **__: None

    def prim_func(self, function: Callable[..., None]) -> Callable[..., None]:
        def run(*buffers: Buffer) -> None:
            if self.Kernel.block % self.programs:
                return  # it ran beside the first of its cluster
            self.turns, self.kept, self.named = Turns(self.groups * self.programs, self.seed), {}, {}
            failures: list[BaseException] = []
            tensors = [Tensor(buffer.data, buffer.dtype, is_tensor=True) for buffer in buffers]

            def role(me: int) -> None:
                self.mine.me, self.mine.arriving, self.mine.allocated = me, THREADS, 0
                self.mine.program, self.mine.group = divmod(me, self.groups)
                self.mine.products, self.mine.stores = [], []
                try:
                    self.turns.wait_for_start(me)
                    function(*tensors)
                    assert not self.mine.products, "a product that nobody waits for"
                    assert not self.mine.stores, "a store that nobody waits for"
                except BaseException as error:
                    failures.append(error)
                finally:
                    self.turns.leave(me)

            threads = [threading.Thread(target=role, args=(me,)) for me in range(self.groups * self.programs)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            if failures:
                raise failures[0]
            assert not any(barrier.arrived for barrier in self.named.values()), "a turn that nobody takes"

        run.__annotations__ = function.__annotations__
        return run

    def get_thread_binding(self) -> int:
        return int(self.mine.group) * THREADS

    def _once(self, make: Callable[[], Any]) -> Any:
        """All groups of a program get the same one, by the order in which they ask; each program has its own."""
        self.mine.allocated += 1
        return self.kept.setdefault(self.mine.allocated, [make() for _ in range(self.programs)])

    def _shared(self, shape: tuple[int, ...], dtype: str) -> Buffer:
        tiles = self._once(lambda: np.full(shape, np.nan, dtype=np.float32))
        return Slices(tiles, self.mine.program, dtype)

    def alloc_barrier(self, counts: list[int]) -> list[Barrier]:
        each = self._once(lambda: [Barrier(count) for count in counts])
        for twins in zip(*each, strict=True):
            for twin in twins:
                twin.twins = list(twins)
        return each[self.mine.program]

    alloc_cluster_barrier = alloc_barrier

    def shuffle_elect(self, threads: int) -> bool:
        """One of so many threads goes on, for one arrival. Of the first group, which loads, one warp is at work."""
        self.mine.arriving = (LOADING if self.mine.group == 0 else THREADS) // threads
        return True

    def barrier_arrive(self, barrier: Barrier) -> None:
        barrier.arrive(self.mine.arriving)
        self.mine.arriving = THREADS
        self.turns.pause(self.mine.me)

    def mbarrier_arrive(self, barrier: Barrier, program: int) -> None:
        """Arrive in a program of the cluster; one elected thread does so in all of them, the last one last."""
        barrier.twins[program].arrive(self.mine.arriving)
        if program == self.programs - 1:
            self.mine.arriving = THREADS
        self.turns.pause(self.mine.me)

    def barrier_wait(self, barrier: Barrier, parity: int) -> None:
        # A fresh barrier lets the waits for parity 1 pass.
        self.turns.pause(self.mine.me, lambda: barrier.phase % 2 != parity % 2)

    def cluster_sync(self) -> None:
        self._meet(self.named.setdefault("cluster", Barrier(THREADS * self.groups * self.programs)))

    def _named(self, number: int, count: int) -> Barrier:
        assert 3 <= number < 16
        return self.named.setdefault((self.mine.program, number), Barrier(count))

    def named_barrier_arrive(self, number: int, count: int) -> None:
        self._named(number, count).arrive()
        self.turns.pause(self.mine.me)

    def sync_threads(self, number: int, count: int) -> None:
        self._meet(self._named(number, count))

    def _meet(self, barrier: Barrier) -> None:
        phase = barrier.phase
        barrier.arrive()
        self.turns.pause(self.mine.me, lambda: barrier.phase > phase)

    def tma_copy(
        self, source: Any, target: Any, barrier: Barrier | None = None, cluster_mask: int | None = None
    ) -> None:
        if barrier is None:
            self.mine.stores.append(lambda: self.copy_tile(source, target))
            return
        barrier.expect(target.data.size)
        getting = [number for number in range(self.programs) if (cluster_mask or 0) >> number & 1] or [
            self.mine.program
        ]
        # The first of those that get a tile loads it for all.
        if getting[0] == self.mine.program:
            for number in getting:
                self.copy_tile(source, target.of(number))
                barrier.twins[number].complete(target.data.size)

    def tma_store_wait(self, left: int) -> None:
        while len(self.mine.stores) > left:
            self.mine.stores.pop(0)()

    def wgmma_gemm(self, a: Buffer, b: Buffer, acc: Buffer, **how: Any) -> None:
        self.mine.products.append(lambda: self.gemm(a, b, acc, **how))

    def wait_wgmma(self, left: int) -> None:
        while len(self.mine.products) > left:
            self.mine.products.pop(0)()

    def min(self, *values: Any) -> Any:  # type: ignore[override]
        return min(values)


class Tensor(Buffer):
    """A tensor of the kernel. A region stands where its first element does; the tile beside it has its size."""

    def __getitem__(self, index: Any) -> Any:
        index = index if isinstance(index, tuple) else (index,)
        return super().__getitem__(tuple([part.start if isinstance(part, slice) else part for part in index]))


class Slices(Buffer):
    """A buffer of several tiles, which each program of the cluster has."""

    def __init__(self, tiles: list[np.ndarray], program: int, dtype: str) -> None:
        super().__init__(tiles[program], dtype, is_tensor=False)
        self.tiles, self.program = tiles, program

    def of(self, program: int) -> Slices:
        return Slices(self.tiles, program, self.dtype)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, tuple) and slice(None) in index:
            return Slices([array[index] for array in self.tiles], self.program, self.dtype)
        return super().__getitem__(index)


def load(source: str, seed: int = 0, groups: int = 3, programs: int = 1) -> dict[str, Any]:
    """Return the names of a kernel file, whose kernels run here in so many groups, in clusters of so many programs."""
    language = WarpGroups(seed, groups, programs)
    imports = "import tilelang\nimport tilelang.language as T\n"
    assert imports in source
    names: dict[str, Any] = {"T": language, "tilelang": TileLang(language), "__name__": "kernel"}
    exec(compile(source.replace(imports, ""), "kernel", "exec", dont_inherit=True), names)
    return names
