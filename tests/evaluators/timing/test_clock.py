"""The clock: what it times and what not, on a CPU and on a GPU that is simulated; and the real one."""

from __future__ import annotations

import itertools
import statistics
import subprocess
import sys
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
from kernelwright.evaluators.timing import clock as clock_module
from kernelwright.evaluators.timing.clock import Call, Clock, Gpu, always
from kernelwright.evaluators.timing.hidden_work import HiddenWorkDetector, IdleDevice, hidden_work
from kernelwright.evaluators.workers.device_lock import DeviceLock

US = 1000
FLUSH_US = 35
LAUNCH_US = 8
SYNC_US = 6
EVENT_US = 2


class Result:
    """Something whose end can be seen."""


class SimulatedGpu:
    """Two streams and a processor that launches on them, with one clock for all, in nanoseconds."""

    def __init__(self) -> None:
        self.now = 0
        self.free = {"main": 0, "side": 0}
        self.log: list[str] = []
        self.captured = 0
        self.began = self.ended = 0
        self.reset_persisting: Callable[[], None] = lambda: self.log.append("reset")
        self.flush: Callable[[], None] = self._flush
        self.flush_kernel = "flush"
        self.wait: Callable[[], object] = self._wait

    def _flush(self) -> None:
        self.log.append("flush")
        self.launch(FLUSH_US)

    def launch(self, us: float, stream: str = "main") -> None:
        self.now += LAUNCH_US * US
        self.free[stream] = max(self.free[stream], self.now) + int(us * US)

    def _wait(self) -> None:
        self.log.append("wait")
        self.now = max(self.now, *self.free.values()) + SYNC_US * US

    def start(self) -> None:
        self.log.append("start")
        self.now += US
        self.began = max(self.now, self.free["main"])

    def stop(self) -> None:
        self.log.append("stop")
        self.now += US
        self.ended = self.free["main"] = max(self.now, self.free["main"]) + EVENT_US * US

    def elapsed_ms(self) -> float:
        return (self.ended - self.began) / 1e6

    def capture(self, call: Call) -> Call:
        self.captured += 1
        number, output = self.captured, call()
        self.log.append(f"capture {number}")

        def replay() -> object:
            self.log.append(f"replay {number}")
            return output

        return replay


class Hands:
    """Of a clock on the wall, and of one that counts the processor's time, moved by the test."""

    def __init__(self) -> None:
        self.wall_ns = self.busy_ns = 0

    def move(self, wall_ms: float, busy_ms: float) -> None:
        self.wall_ns += int(wall_ms * 1e6)
        self.busy_ns += int(busy_ms * 1e6)


@pytest.fixture
def hands(monkeypatch: pytest.MonkeyPatch) -> Hands:
    moved = Hands()
    monkeypatch.setattr(clock_module, "_now_ns", lambda: moved.wall_ns)
    monkeypatch.setattr(clock_module, "_cpu_ns", lambda: moved.busy_ns)
    return moved


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> SimulatedGpu:
    simulated = SimulatedGpu()
    monkeypatch.setattr(clock_module, "_now_ns", lambda: simulated.now)
    return simulated


def test_preparing_is_not_timed_and_results_are_dropped_but_the_last(hands: Hands) -> None:
    seen: list[weakref.ref[Result]] = []
    alive: list[int] = []
    numbers = itertools.count()

    def next_call() -> tuple[int, Call]:
        hands.move(wall_ms=20, busy_ms=40)
        alive.append(sum(reference() is not None for reference in seen))

        def call() -> Result:
            hands.move(wall_ms=2, busy_ms=3)
            result = Result()
            seen.append(weakref.ref(result))
            return result

        return next(numbers), call

    taken = Clock("cpu").sample(next_call, 5)
    assert taken.times_ms == pytest.approx([2.0] * 5)
    assert taken.host_ms == taken.times_ms
    assert taken.cores == pytest.approx(1.5)
    assert alive == [0] * 5
    assert taken.results[-1] is seen[-1]()
    assert Clock("cpu").empty_ms() == 0.0


def test_a_gpu_is_idle_and_its_cache_empty_before_each_call(gpu: SimulatedGpu) -> None:
    clock = Clock("cuda", gpu=gpu)
    clock.sample(always(lambda: gpu.launch(100)), 1)
    gpu.log.clear()
    clock.sample(always(lambda: gpu.launch(100)), 2)
    assert gpu.log == ["wait", "reset", "flush", "start", "stop", "wait"] * 2


def test_a_gpu_that_was_idle_is_warmed_up(gpu: SimulatedGpu) -> None:
    clock = Clock("cuda", gpu=gpu)
    clock.warm_up()
    for pause_s, warmed in ((0.0, False), (3.0, True), (0.1, False)):
        gpu.now += int(pause_s * 1e9)
        gpu.log.clear()
        start = gpu.now
        clock.sample(always(lambda: None), 1)
        assert (gpu.log.count("flush") > 1) is warmed
        assert (gpu.now - start > clock_module.WARM_UP_S * 1e9) is warmed


def test_no_gpu_is_warmed_up_on_the_clock_of_another(gpu: SimulatedGpu) -> None:
    """That of the evaluator, which times a batch from request to answer."""
    clock = Clock("cuda", gpu=gpu)
    clock.settle()
    clock.sample(always(lambda: None), 1, warm=False)
    assert gpu.log.count("flush") == 2 and gpu.now < clock_module.WARM_UP_S * 1e9


def test_events_see_the_kernel_and_not_its_launch(gpu: SimulatedGpu) -> None:
    """The launch happens while the cache is flushed."""
    taken = Clock("cuda", gpu=gpu).sample(always(lambda: gpu.launch(20)), 5)
    assert taken.times_ms == pytest.approx([(20 + EVENT_US) / 1e3] * 5)


def many_launches(gpu: SimulatedGpu) -> None:
    for _ in range(40):
        gpu.launch(3)


def waits_inside(gpu: SimulatedGpu) -> None:
    gpu.launch(200)
    gpu.wait()
    gpu.launch(30)


def joins_its_side_stream(gpu: SimulatedGpu) -> None:
    gpu.launch(400, "side")
    gpu.free["main"] = max(gpu.free.values())


HONEST: list[Callable[[SimulatedGpu], None]] = [
    lambda gpu: None,
    lambda gpu: gpu.launch(5),
    lambda gpu: gpu.launch(50_000),
    many_launches,
    waits_inside,
    joins_its_side_stream,
]


def test_an_empty_call_costs_the_flush_and_the_wait(gpu: SimulatedGpu) -> None:
    assert Clock("cuda", gpu=gpu).empty_ms() == pytest.approx((LAUNCH_US + FLUSH_US + SYNC_US) / 1e3)


@pytest.mark.parametrize("call", HONEST)
def test_correct_calls_hide_nothing(gpu: SimulatedGpu, call: Callable[[SimulatedGpu], None]) -> None:
    clock = Clock("cuda", gpu=gpu)
    empty_ms = clock.empty_ms()
    taken = clock.sample(always(lambda: call(gpu)), 9)
    assert hidden_work(taken.times_ms, taken.host_ms, empty_ms) is None


def test_work_beside_the_timed_stream_is_found(gpu: SimulatedGpu) -> None:
    clock = Clock("cuda", gpu=gpu)
    empty_ms = clock.empty_ms()
    taken = clock.sample(always(lambda: gpu.launch(150, "side")), 9)
    found = hidden_work(taken.times_ms, taken.host_ms, empty_ms)
    assert found is not None and "beyond the 0.00" in found
    gpu.elapsed_ms = lambda: 0.5 * (gpu.ended - gpu.began) / 1e6  # type: ignore[method-assign]
    taken = clock.sample(always(lambda: gpu.launch(1000)), 9)
    assert hidden_work(taken.times_ms, taken.host_ms, empty_ms) is not None


def test_a_graph_for_each_set_of_buffers(gpu: SimulatedGpu) -> None:
    numbers = itertools.cycle((0, 1))
    clock = Clock("cuda", graph=True, gpu=gpu)

    def next_call() -> tuple[int, Call]:
        number = next(numbers)
        return number, lambda: f"outputs {number}"

    taken = clock.sample(next_call, 4)
    assert [line for line in gpu.log if "capture" in line] == ["capture 1", "capture 2"]
    assert [line for line in gpu.log if "replay" in line] == ["replay 1", "replay 2", "replay 1", "replay 2"]
    assert taken.results[-1] == "outputs 1"
    assert clock.prepared(*next_call())() == "outputs 0" and gpu.log[-1] == "replay 1"
    clock.forget()
    clock.sample(next_call, 1)
    assert gpu.captured == 3
    assert clock.method == "CUDA graph, L2 flushed"
    assert Clock("cpu", graph=True).method == "wall clock"


def test_the_simulated_gpu_is_one() -> None:
    stands_in: Gpu = SimulatedGpu()
    assert stands_in.elapsed_ms() == 0.0


def alone_on_the_gpu() -> AbstractContextManager[None]:
    """What other tests run meanwhile would use the cache too, and look like hidden work."""
    import torch

    return DeviceLock(str(torch.cuda.get_device_properties(0).uuid)).held()


def confirmed(clock: Clock, call: Call, idle: IdleDevice) -> str | None:
    """The hidden work of a call, sampled again while other processes use the device, as a candidate is."""
    suspicion = HiddenWorkDetector(idle)
    while True:
        taken = clock.sample(always(call), 50)
        hidden = hidden_work(taken.times_ms, taken.host_ms, idle.empty_ms)
        if hidden is None:
            return None
        if (proven := suspicion.confirmed(hidden)) is not None:
            return proven


@pytest.mark.gpu
@pytest.mark.gpu_alone
class TestCuda:
    """The same on a real GPU."""

    def test_correct_calls_hide_nothing_and_a_side_stream_does(self) -> None:
        import torch

        clock = Clock("cuda")
        x = torch.randn(1 << 22, device="cuda")
        product = torch.randn(2048, 2048, device="cuda")
        side = torch.cuda.Stream()

        def ten() -> object:
            y = x
            for _ in range(10):
                y = y * 1.5
            return y

        def hides() -> None:
            with torch.cuda.stream(side):
                for _ in range(4):
                    torch.mm(product, product)

        calls: list[Call] = [lambda: x + 1, lambda: product @ product, ten, lambda: x.sum().item(), lambda: None]
        with alone_on_the_gpu():
            idle = IdleDevice(clock.empty_ms(), clock.empty_ms)
            for call in calls:
                assert confirmed(clock, call, idle) is None
            assert confirmed(clock, hides, idle) is not None

    def test_a_replay_sees_new_contents(self) -> None:
        import torch

        clock = Clock("cuda", graph=True)
        x = torch.zeros(1024, device="cuda")
        steps = itertools.count(1)

        def next_call() -> tuple[int, Call]:
            x.fill_(next(steps))
            return 0, lambda: x * 2

        taken = clock.sample(next_call, 5)
        assert isinstance(taken.results[-1], torch.Tensor)
        assert taken.results[-1].tolist() == [10.0] * 1024

    def test_a_wait_cannot_be_captured(self) -> None:
        """In a process of its own: torch's random numbers are of no use after a capture that failed."""
        lines = (
            "import torch",
            "from kernelwright.evaluators.timing.clock import Clock",
            "x = torch.zeros(9, device='cuda')",
            "Clock('cuda', graph=True).sample(lambda: (1, lambda: x.sum().item()), 1)",
        )
        ran = subprocess.run([sys.executable, "-c", "; ".join(lines)], capture_output=True, text=True)
        assert "CaptureError: a CUDA graph cannot hold this call" in ran.stderr

    def test_the_cache_is_empty(self) -> None:
        """Reading what fits into L2 takes longer after a flush than after a kernel that only waits as long."""
        import torch

        clock = Clock("cuda")
        gpu: Any = clock._gpu
        x = torch.randn(8 << 20, device="cuda")
        with alone_on_the_gpu():
            cold = statistics.median(clock.sample(always(lambda: x.sum()), 50).times_ms)
            gpu.flush = lambda: torch.cuda._sleep(700_000)
            warm = statistics.median(clock.sample(always(lambda: x.sum()), 50).times_ms)
        assert cold > 1.05 * warm

    def test_the_flush_is_our_own_kernel(self) -> None:
        from kernelwright.evaluators.timing.l2_flush import KERNEL, L2

        assert L2("cuda").kernel == KERNEL
