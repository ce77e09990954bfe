"""What the reference keeps on a GPU that has room for it, with torch's figures of a GPU made up."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from kernelwright.core import Status
from kernelwright.evaluators.candidate.replayer import Replayer
from kernelwright.evaluators.candidate.responses import BatchOutputs
from kernelwright.evaluators.reference.arithmetic import Arithmetic
from kernelwright.evaluators.reference.drawn_reference import BESIDE, CHECK, DrawnReference
from kernelwright.evaluators.reference.worker import LoadedWorkload
from kernelwright.evaluators.settings import Limits
from kernelwright.evaluators.timing.priority import Scheduling

GB = 1 << 30
INPUT = 4 * GB
SOURCE = """
import torch
from torch import nn
class Model(nn.Module):
    def forward(self, x): return x
def get_inputs(): return [torch.ones(8)]
def get_init_inputs(): return []
"""


class MadeUpGpu:
    """Torch's figures of a GPU's memory, which the test sets; and what was given back."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.free = self.reserved = self.allocated = 0
        self.emptied = 0
        made_up: dict[str, Callable[[], Any]] = {
            "mem_get_info": lambda: (self.free, 80 * GB),
            "memory_reserved": lambda: self.reserved,
            "memory_allocated": lambda: self.allocated,
            "ipc_collect": lambda: None,
            "empty_cache": self._empty,
        }
        for name, function in made_up.items():
            monkeypatch.setattr(torch.cuda, name, function)

    def _empty(self) -> None:
        self.emptied += 1
        self.free, self.reserved = self.free + self.reserved - self.allocated, self.allocated


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> MadeUpGpu:
    return MadeUpGpu(monkeypatch)


@pytest.fixture
def reference() -> DrawnReference:
    made = DrawnReference({"device": "cuda", "tolerances": {}}, Arithmetic(), Scheduling())
    made.tensor_bytes = 2 * INPUT
    return made


def has_drawn(reference: DrawnReference) -> None:
    reference.inputs, reference.drawn = [torch.empty(INPUT, dtype=torch.uint8, device="meta")], (1, None, 0)


@pytest.mark.parametrize(("free", "kept"), [(BESIDE * 2 * INPUT, True), (BESIDE * 2 * INPUT - 1, False)])
def test_what_is_large_is_kept_while_another_process_finds_memory(
    free: int, kept: bool, gpu: MadeUpGpu, reference: DrawnReference
) -> None:
    gpu.free, gpu.reserved, gpu.allocated = free, 3 * INPUT, INPUT
    has_drawn(reference)
    reference.release()
    assert bool(reference.inputs) is kept and gpu.emptied == (not kept)
    has_drawn(reference)
    reference.clear()
    assert not reference.inputs, "timed calls have others"


@pytest.mark.parametrize("nbytes", [1 << 20, 1 << 50])
def test_small_problems_and_those_that_save_memory_free_it_as_ever(
    nbytes: int, gpu: MadeUpGpu, reference: DrawnReference
) -> None:
    gpu.free, gpu.reserved = 70 * GB, 2 * GB
    reference.tensor_bytes = nbytes
    has_drawn(reference)
    reference.release()
    assert not reference.inputs and gpu.emptied == 1 and not reference.finds_room


def test_a_check_may_use_what_its_own_process_has_cached(gpu: MadeUpGpu, reference: DrawnReference) -> None:
    gpu.free, gpu.reserved, gpu.allocated = 2 * INPUT, CHECK * 2 * INPUT, 2 * INPUT
    assert reference.finds_room
    gpu.free -= 1
    assert not reference.finds_room


@pytest.mark.parametrize("free", [CHECK * 2 * INPUT, CHECK * 2 * INPUT - 1])
def test_a_check_that_may_need_memory_frees_all_but_its_inputs(
    free: int, gpu: MadeUpGpu, reference: DrawnReference, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[str] = []
    gpu.free = free
    has_drawn(reference)
    reference.opened = SimpleNamespace(bytes=INPUT, close=lambda: closed.append("opened"))  # type: ignore[assignment]
    monkeypatch.setitem(vars(reference), "timed", SimpleNamespace(release=lambda: closed.append("timed")))
    monkeypatch.setitem(vars(reference), "feed", SimpleNamespace(is_large=True, forget=lambda: closed.append("feed")))
    reference.make_room()
    reference.release_timed()
    assert closed == ([] if free == CHECK * 2 * INPUT else ["timed", "feed", "opened", "timed"])
    assert reference.inputs


def test_nothing_is_kept_on_a_cpu_nor_once_memory_is_saved(tmp_path: Path) -> None:
    (tmp_path / "problem.py").write_text(SOURCE)
    options = {"device": "cpu", "tolerances": {}, "problem": str(tmp_path / "problem.py"), "sizes": {}}
    workload = LoadedWorkload(options, Arithmetic(), Scheduling())
    assert workload.reference.tensor_bytes > 1 << 40 and not workload.reference.leaves_room
    workload.handlers["open"]()
    assert workload.reference.tensor_bytes == 64
    assert workload.handlers["finds_room"]() == {"room": False}
    workload.handlers["save_memory"]()
    assert workload.reference.tensor_bytes > 1 << 40


@pytest.mark.parametrize("room", [False, True])
def test_the_process_that_replays_frees_memory_only_where_a_check_needs_it(
    room: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def call(op: str, **_: Any) -> dict[str, Any]:
        asked.append(op)
        return {"status": Status.WRONG_VALUE, "message": "made up"}

    reference: Any = SimpleNamespace(
        has_large_inputs=True, finds_room=lambda: room, call=call, verdict=call, effects={"changed": []}
    )  # fmt: skip
    workers: Any = SimpleNamespace(replay_worker=lambda: SimpleNamespace(alive=True, folder=Path("made-up")))
    replayer = Replayer(workers, Limits(), share=True)
    results = BatchOutputs(outputs=[[]], form="tensor")
    monkeypatch.setattr(replayer, "_called", lambda *_, **__: (None, results))
    monkeypatch.setattr(replayer, "release", lambda: asked.append("release"))
    replayer.check(reference, 1, 2, None, 0, precise=False)
    assert asked == (["check"] if room else ["release", "take_back", "check"])
