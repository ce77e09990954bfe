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

from ..agent.tilelang_interpreter import Buffer, Language, TileLang

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
        ready = [one for one, until in self._until.items() if until()]
        self.deadlock |= not ready
        self._running = self._rng.choice(ready) if ready else -1
        self._changed.notify_all()


class Barrier:
    """An mbarrier, or a named barrier: counts arrivals, and the phases that are over."""

    def __init__(self, count: int) -> None:
        self.count, self.arrived, self.phase = count, 0, 0

    def arrive(self, threads: int = THREADS) -> None:
        self.arrived += threads
        assert self.arrived <= self.count, "more threads arrive than the barrier counts"
        if self.arrived == self.count:
            self.arrived, self.phase = 0, self.phase + 1


class WarpGroups(Language):
    """What `T` stands for; the names of `Language` that a group may use, and those of roles."""

    def __init__(self, seed: int, groups: int) -> None:
        super().__init__()
        self.seed, self.groups = seed, groups
        self.mine = threading.local()
        self.copy_tile = super().copy
        self.alloc_shared, self.alloc_fragment = self._shared, self._alloc
        self.macro: Callable[[Any], Any] = lambda function: function
        self.serial = range
        self.alloc_local = lambda shape, _: [0] * shape[0]
        self.exp2 = np.exp2
        self.set_max_nreg = self.warpgroup_fence_operand = self.fence_proxy_async = lambda *_, **__: None

    def prim_func(self, function: Callable[..., None]) -> Callable[..., None]:
        def run(*buffers: Buffer) -> None:
            self.turns, self.kept, self.named = Turns(self.groups, self.seed), {}, {}
            failures: list[BaseException] = []
            tensors = [Tensor(one.data, one.dtype, is_tensor=True) for one in buffers]

            def role(group: int) -> None:
                self.mine.group, self.mine.allocated, self.mine.products, self.mine.stores = group, 0, [], []
                self.mine.arriving = THREADS
                try:
                    self.turns.wait_for_start(group)
                    function(*tensors)
                    assert not self.mine.products, "a product that nobody waits for"
                    assert not self.mine.stores, "a store that nobody waits for"
                except BaseException as error:
                    failures.append(error)
                finally:
                    self.turns.leave(group)

            threads = [threading.Thread(target=role, args=(group,)) for group in range(self.groups)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            if failures:
                raise failures[0]
            assert not any(one.arrived for one in self.named.values()), "a turn that nobody takes"

        run.__annotations__ = function.__annotations__
        return run

    def get_thread_binding(self) -> int:
        return int(self.mine.group) * THREADS

    def _once(self, make: Callable[[], Any]) -> Any:
        """All groups get the same one, by the order in which they ask."""
        self.mine.allocated += 1
        return self.kept.setdefault(self.mine.allocated, make())

    def _shared(self, shape: tuple[int, ...], dtype: str) -> Buffer:
        return self._once(lambda: Slices(np.full(shape, np.nan, dtype=np.float32), dtype, is_tensor=False))

    def alloc_barrier(self, counts: list[int]) -> list[Barrier]:
        return self._once(lambda: [Barrier(count) for count in counts])

    def shuffle_elect(self, threads: int) -> bool:
        """One of so many threads goes on, for one arrival. Of the first group, which loads, one warp is at work."""
        self.mine.arriving = (LOADING if self.mine.group == 0 else THREADS) // threads
        return True

    def barrier_arrive(self, barrier: Barrier) -> None:
        barrier.arrive(self.mine.arriving)
        self.mine.arriving = THREADS
        self.turns.pause(self.mine.group)

    def barrier_wait(self, barrier: Barrier, parity: int) -> None:
        # A fresh barrier lets the waits for parity 1 pass.
        self.turns.pause(self.mine.group, lambda: barrier.phase % 2 != parity % 2)

    def _named(self, number: int, count: int) -> Barrier:
        assert 3 <= number < 16
        return self.named.setdefault(number, Barrier(count))

    def named_barrier_arrive(self, number: int, count: int) -> None:
        self._named(number, count).arrive()
        self.turns.pause(self.mine.group)

    def sync_threads(self, number: int, count: int) -> None:
        barrier = self._named(number, count)
        phase = barrier.phase
        barrier.arrive()
        self.turns.pause(self.mine.group, lambda: barrier.phase > phase)

    def tma_copy(
        self, source: Any, target: Any, barrier: Barrier | None = None, cluster_mask: int | None = None
    ) -> None:
        assert cluster_mask is None
        if barrier is not None:
            self.copy_tile(source, target)
        else:
            self.mine.stores.append(lambda: self.copy_tile(source, target))

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
        return super().__getitem__(tuple(one.start if isinstance(one, slice) else one for one in index))


class Slices(Buffer):
    """A buffer of several tiles."""

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, tuple) and slice(None) in index:
            return Slices(self.data[index], self.dtype, is_tensor=False)
        return super().__getitem__(index)


def load(source: str, seed: int = 0, groups: int = 3) -> dict[str, Any]:
    """Return the names of a kernel file, whose kernels run here in so many groups."""
    language = WarpGroups(seed, groups)
    imports = "import tilelang\nimport tilelang.language as T\n"
    assert imports in source
    names: dict[str, Any] = {"T": language, "tilelang": TileLang(language), "__name__": "kernel"}
    exec(compile(source.replace(imports, ""), "kernel", "exec", dont_inherit=True), names)
    return names
