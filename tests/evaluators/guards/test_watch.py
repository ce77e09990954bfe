"""Changes of state that a candidate must not touch are found, and allowed work is not mistaken for them."""

from __future__ import annotations

import builtins
import importlib
import json
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
import triton
import triton.testing
from kernelwright.evaluators.guards.watch import _POOL_WAITS, Watch, _has_result
from kernelwright.evaluators.timing.clock import Clock
from kernelwright.evaluators.workers import channel, tensor_ipc


def rules(watch: Watch) -> list[tuple[str, str]]:
    return [(found["rule"], found["where"]) for found in watch.violations()]


@pytest.fixture(scope="module", autouse=True)
def _dynamo() -> None:
    """It replaces torch.manual_seed when it is imported, and takes three seconds, which no other file needs to wait."""
    importlib.import_module("torch._dynamo")


@pytest.fixture
def watch() -> Watch:
    watch = Watch("cpu")
    assert rules(watch) == []
    return watch


def fake(*_: Any, **__: Any) -> Any:
    return None


@pytest.mark.parametrize(
    ("owner", "name", "where"),
    [
        (time, "perf_counter", "time.perf_counter"),
        (time, "perf_counter_ns", "time.perf_counter_ns"),
        (torch.cuda, "synchronize", "torch.cuda.synchronize"),
        (torch.cuda, "Event", "torch.cuda.Event"),
        (torch.cuda.Event, "elapsed_time", "torch.cuda.Event.elapsed_time"),
        (torch, "equal", "torch.equal"),
        (torch, "allclose", "torch.allclose"),
        (torch, "empty", "torch.empty"),
        (torch, "randn", "torch.randn"),
        (torch, "manual_seed", "torch.manual_seed"),
        (torch.Tensor, "__eq__", "torch.Tensor.__eq__"),
        (torch.Tensor, "clone", "torch.Tensor.clone"),
        (torch.Tensor, "shape", "torch.Tensor.shape"),
        (torch.Tensor, "data_ptr", "torch.Tensor.data_ptr"),
        (torch.nn.Module, "__call__", "torch.nn.Module.__call__"),
        (torch.nn.Module, "load_state_dict", "torch.nn.Module.load_state_dict"),
        (torch.profiler, "profile", "torch.profiler.profile"),
        (triton.testing, "do_bench", "triton.testing.do_bench"),
        (statistics, "median", "statistics.median"),
        (json, "dumps", "json.dumps"),
        (builtins, "isinstance", "builtins.isinstance"),
        (socket.socket, "sendall", "socket.socket.sendall"),
        (tensor_ipc, "publish_outputs", "kernelwright.evaluators.workers.tensor_ipc.publish_outputs"),
        (channel.Channel, "send", "kernelwright.evaluators.workers.channel.Channel.send"),
        (channel, "MAX_BYTES", "kernelwright.evaluators.workers.channel.MAX_BYTES"),
        (Watch, "violations", "kernelwright.evaluators.guards.watch.Watch.violations"),
    ],
)
def test_what_is_replaced_is_named(
    watch: Watch, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, where: str
) -> None:
    look = watch.violations
    with monkeypatch.context() as patch:
        really = isinstance
        patch.setattr(owner, name, (lambda *given: really(*given)) if name == "isinstance" else fake, raising=False)
        found = look("load")
    assert ("patched-function", f"{where}, after load") in [(row["rule"], row["where"]) for row in found]
    assert rules(watch) == [], "and nothing is left when it is put back"


def test_what_is_exchanged_below_a_function_is_seen(watch: Watch) -> None:
    code, defaults = Clock.sample.__code__, tensor_ipc.describe.__defaults__
    try:
        Clock.sample.__code__ = fake.__code__
        assert rules(watch) == [("patched-function", "kernelwright.evaluators.timing.clock.Clock.sample")]
        Clock.sample.__code__ = code
        tensor_ipc.describe.__defaults__ = (None,)
        assert rules(watch) == [("patched-function", "kernelwright.evaluators.workers.tensor_ipc.describe")]
    finally:
        Clock.sample.__code__, tensor_ipc.describe.__defaults__ = code, defaults


def test_a_module_that_is_swapped_is_seen(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "torch.cuda", ModuleType("torch.cuda"))
        assert rules(watch) == [("patched-function", "sys.modules['torch.cuda']")]


def test_an_instance_is_watched_when_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock("cpu")
    watch = Watch("cpu", [clock])
    clock.sample = fake  # type: ignore[method-assign]
    assert rules(watch) == [("patched-function", "Clock.sample")]


def test_a_module_is_followed_until_there_is_a_newer_one(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = Watch("cpu")
    old, new = ModuleType("kernelwright_problem"), ModuleType("kernelwright_problem")
    for module in (old, new):
        module.rows = 4  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "kernelwright_problem", module)
        watch.follow(module)
        assert rules(watch) == []
    old.rows = 5  # type: ignore[attr-defined]
    assert rules(watch) == []
    new.rows = 5  # type: ignore[attr-defined]
    assert rules(watch) == [("patched-function", "kernelwright_problem.rows")]


@contextmanager
def traced() -> Iterator[None]:
    before = sys.getprofile()
    sys.setprofile(fake)
    yield
    sys.setprofile(before)


@contextmanager
def alarm() -> Iterator[None]:
    before = signal.signal(signal.SIGVTALRM, fake)
    signal.setitimer(signal.ITIMER_VIRTUAL, 60)
    yield
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    signal.signal(signal.SIGVTALRM, before)


@contextmanager
def doubles() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@contextmanager
def hooked() -> Iterator[None]:
    handle = torch.nn.modules.module.register_module_forward_hook(fake)
    yield
    handle.remove()


@contextmanager
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(before + 1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("state", "names"),
    [
        (traced, {"sys.setprofile"}),
        (alarm, {"signal handlers", "timers"}),
        (doubles, {"torch's default dtype"}),
        (hooked, {"hooks of all modules"}),
        (threads, {"torch.set_num_threads"}),
        (lambda: torch.device("meta"), {"torch's function modes"}),
        (lambda: torch.autocast("cpu"), {"torch.autocast"}),
    ],
)
def test_global_state_is_the_harness_s(watch: Watch, state: Callable[[], Any], names: set[str]) -> None:
    with state():
        found = rules(watch)
    assert {name for rule, name in found if rule == "global-state"} == names
    assert rules(watch) == []


def test_a_thread_at_work_is_seen_and_an_idle_pool_is_not(watch: Watch) -> None:
    event = threading.Event()
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(abs, [-1, 2])) == [1, 2]
        assert rules(watch) == []
        waiting = pool.submit(event.wait, 5)
        found = rules(watch)
        event.set()
        waiting.result()
        assert [(rule, where.partition(" in ")[2]) for rule, where in found] == [("background-thread", "threading.py")]
        assert rules(watch) == []
    event.clear()
    thread = threading.Thread(target=event.wait, args=(5,))
    thread.start()
    found = rules(watch)
    event.set()
    thread.join()
    assert [rule for rule, _ in found] == ["background-thread"]
    assert rules(watch) == []


def test_a_thread_that_is_about_to_begin_has_no_result() -> None:
    """It stands where idle threads wait, but not before an empty queue."""
    queue: SimpleQueue[object] = SimpleQueue()
    frame: Any = SimpleNamespace(f_code=_POOL_WAITS, f_locals={"work_queue": queue}, f_lineno=1)
    assert _has_result(frame)
    queue.put("work")
    assert not _has_result(frame)


def test_a_process_that_goes_on_is_seen(watch: Watch) -> None:
    process = subprocess.Popen(["sleep", "60"])
    while Path(f"/proc/{process.pid}/comm").read_text() != "sleep\n":  # the name changes after the program has begun
        time.sleep(0.001)
    assert rules(watch) == [("background-process", f"sleep ({process.pid})")]
    process.kill()
    for _ in range(100):  # it is not waited for: what has ended is not a process that works
        if not rules(watch):
            break
        time.sleep(0.01)
    assert rules(watch) == []
    process.wait()


def test_not_more_is_reported_than_anybody_reads(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        for name in ("sin", "cos", "tan", "exp", "log", "sqrt", "abs", "neg", "add", "mul"):
            patch.setattr(torch, name, fake)
        found = rules(watch)
    assert len(found) == 8


@pytest.mark.gpu
def test_streams_and_the_cache_are_watched_on_a_gpu() -> None:
    import ctypes

    torch.empty(1, device="cuda")
    watch = Watch("cuda")
    assert rules(watch) == []
    with torch.cuda.stream(torch.cuda.Stream()):
        assert ("stream", "torch's current stream") in rules(watch)
    assert rules(watch) == []
    driver, limit = ctypes.CDLL("libcuda.so.1"), ctypes.c_size_t()
    assert driver.cuCtxGetLimit(ctypes.byref(limit), 0x06) == 0
    assert driver.cuCtxSetLimit(0x06, ctypes.c_size_t(1 << 20)) == 0
    try:
        assert ("l2-policy", "the limit of persisting L2 lines") in rules(watch)
    finally:
        driver.cuCtxSetLimit(0x06, limit)
    assert rules(watch) == []
