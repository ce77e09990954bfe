"""A recording of several threads does not depend on how they took turns."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from kernelwright.core.launch_plan import KernelCode, LaunchPlan, ParallelStep
from kernelwright.evaluators.replay.executor import PlanExecutor
from kernelwright.evaluators.replay.record import Recorder
from kernelwright.evaluators.replay.turns import written_positions
from kernelwright.evaluators.workers.modules import unobserved
from torch import nn

PARTS, ROWS = 6, 4


def code(name: str) -> KernelCode:
    loop = "for (int32_t i = 0; i < n; ++i) { Y[i] = X[i] * 2.0f; }"
    text = f"int32_t {name}(float* X, float* Y, int32_t n) {{ {loop} return 0; }}"
    return KernelCode(name=name, kind="c", text=text, entry=name, parameters=("pointer", "pointer", "int32"))


class Turns:
    """Lets threads go on in a drawn order: each waits here until it is drawn."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def shuffled(self, works: list[Callable[[], None]]) -> list[Callable[[], None]]:
        return self._random.sample(works, len(works))


class Pooled(nn.Module):
    """Launches parts on threads, in a drawn order; `body` says which, and what is done between them."""

    def __init__(self, body: Any, recorder: Recorder, seed: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(ROWS))
        self._body, self._recorder, self._turns = body, recorder, Turns(seed)

    def launch(self, x: Any, y: Any, name: str = "twice") -> None:
        self._recorder._launched(code(name), [x, y, x.numel()])
        with unobserved():
            torch.mul(x, 2, out=y)

    def launch_both(self, x: Any, whole: Any, y: Any) -> None:
        loop = "for (int32_t i = 0; i < 4; ++i) { Y[i] = X[i] + X[i] + (W[i] * 0.0f); }"
        text = f"int32_t both(float* W, float* X, float* Y) {{ {loop} return 0; }}"
        parameters = ("pointer", "pointer", "pointer")
        both = KernelCode(name="both", kind="c", text=text, entry="both", parameters=parameters)
        self._recorder._launched(both, [whole, x, y])
        with unobserved():
            torch.mul(x, 2, out=y)

    def on_threads(self, *works: Callable[[], None]) -> None:
        """Do each in a thread of its own, one after the other in a drawn order; the calling thread waits."""
        for work in self._turns.shuffled([*works]):
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()

    def forward(self, x: Any) -> Any:
        return self._body(self, x)


def views_of_the_threads(model: Any, x: Any) -> Any:
    y = torch.empty_like(x)
    model.on_threads(*(lambda p=p: model.launch(x[p], y[p]) for p in range(PARTS)))
    return y


def views_between_launches(model: Any, x: Any) -> Any:
    """What the calling thread does may come before or after a launch of another one."""
    y, works = torch.empty_like(x), []
    for part in range(PARTS):
        given, to = x.view(x.shape)[part], y[part]
        works.append(lambda given=given, to=to: model.launch(given, to))
        if model._turns._random.random() < 0.5:
            model.on_threads(*works)
            works = []
    model.on_threads(*works)
    return y


def outputs_of_their_own(model: Any, x: Any) -> Any:
    parts, works = [], []
    for part in range(PARTS):
        parts.append(torch.empty_like(x[part]))
        works.append(lambda part=part, to=parts[-1]: model.launch(x[part], to))
        if model._turns._random.random() < 0.5:
            model.on_threads(*works)
            works = []
    model.on_threads(*works)
    return torch.stack(parts)


def of_the_same_rows(model: Any, x: Any) -> Any:
    """Each part reads all that others read, at another position of its arguments."""
    y = torch.empty_like(x)
    model.on_threads(*(lambda p=p: model.launch_both(x[p], x, y[p]) for p in range(PARTS)))
    return y


def two_kernels(model: Any, x: Any) -> Any:
    y = torch.empty_like(x)
    names = ("twice", "again")
    model.on_threads(*(lambda p=p: model.launch(x[p], y[p], names[p % 2]) for p in range(PARTS)))
    return y


def views_of_a_view_that_a_thread_was_first_to_see(model: Any, x: Any) -> Any:
    y, seen = torch.empty_like(x), []

    def work(part: int) -> None:
        to = y[part]
        seen.append((part, to))
        model.launch(x[part], to)

    model.on_threads(*(lambda p=p: work(p) for p in range(PARTS)))
    return torch.stack([to.view(ROWS) for _, to in sorted(seen, key=lambda pair: pair[0])])


def two_layers(model: Any, x: Any) -> Any:
    middle, y = torch.empty_like(x), torch.empty_like(x)
    model.on_threads(*(lambda p=p: model.launch(x[p], middle[p]) for p in range(PARTS)))
    model.on_threads(*(lambda p=p: model.launch(middle[p], y[p]) for p in range(PARTS)))
    return y


def chains(model: Any, x: Any) -> Any:
    """Each thread does both layers of its part."""
    middle, y = torch.empty_like(x), torch.empty_like(x)

    def both(part: int) -> None:
        model.launch(x[part], middle[part])
        model.launch(middle[part], y[part])

    model.on_threads(*(lambda p=p: both(p) for p in range(PARTS)))
    return y


BODIES = {
    views_of_the_threads: (1, 2.0),
    views_between_launches: (1, 2.0),
    outputs_of_their_own: (1, 2.0),
    of_the_same_rows: (1, 2.0),
    two_kernels: (1, 2.0),
    views_of_a_view_that_a_thread_was_first_to_see: (1, 2.0),
    two_layers: (2, 4.0),
    chains: (2, 4.0),
}


def planned(body: Any, seed: int, packed: bool = False) -> LaunchPlan:
    packing = Recorder()
    recorder = Recorder(packing)
    model = Pooled(body, recorder, seed)

    def pack() -> None:
        model.packed = torch.stack([model.weight.detach() + part for part in range(PARTS)])

    if packed:
        packing.record_packing(model, pack, {})
    return recorder.record(model, [torch.randn(PARTS, ROWS)])


@pytest.mark.parametrize("body", BODIES)
def test_the_plan_is_the_same_in_whichever_order_threads_run(body: Any, tmp_path: Path) -> None:
    levels, factor = BODIES[body]
    first, *others = (planned(body, seed) for seed in range(8))
    assert [first.difference(other) for other in others] == [None] * 7
    joined = [len(step.launches) for step in first.steps if isinstance(step, ParallelStep)]
    assert joined == [PARTS] * levels
    x = torch.randn(PARTS, ROWS)
    weights = {"weight": torch.ones(ROWS)}
    assert torch.equal(PlanExecutor(first, {}, tmp_path, "cpu")([x], weights), x * factor)


def test_threads_may_be_the_first_to_see_parts_of_what_was_packed() -> None:
    def body(model: Any, x: Any) -> Any:
        y = torch.empty_like(x)
        model.on_threads(*(lambda p=p: model.launch_both(model.packed[p], x[p], y[p]) for p in range(PARTS)))
        return y

    first, *others = (planned(body, seed, packed=True) for seed in range(8))
    assert first.packing is not None and len(first.packed) == len(first.packing.outputs) == PARTS
    assert [first.difference(other) for other in others] == [None] * 7


def test_what_a_kernel_of_another_name_reads_is_written_before() -> None:
    def body(model: Any, x: Any) -> Any:
        y, z = torch.empty_like(x), torch.empty_like(x)
        model.on_threads(*(lambda p=p: model.launch(x[p], y[p]) for p in range(PARTS)))
        model.launch(y, z, name="then")
        return z

    plan = planned(body, 1)
    assert [line.split()[0] for line in plan.lines()][-2:] == ["threads", "launch"]


def test_a_launch_that_repeats_another_comes_after_it() -> None:
    def body(model: Any, x: Any) -> Any:
        y = torch.empty_like(x)
        for _ in range(2):
            model.on_threads(lambda: model.launch(x[0], y[0]), lambda: model.launch(x[1], y[1]))
        return y

    joined = [len(step.launches) for step in planned(body, 1).steps if isinstance(step, ParallelStep)]
    assert joined == [2, 2]


def test_a_pool_and_views_of_the_calling_thread_at_the_same_time() -> None:
    """With real turns, as often as a machine takes them differently."""

    def body(model: Any, x: Any) -> Any:
        y = torch.empty_like(x)
        with ThreadPoolExecutor(PARTS) as pool:
            for part in range(PARTS):
                given, to = x.view(x.shape)[part], y.view(y.shape)[part]
                pool.submit(model.launch, given, to.data)
        return y

    first, *others = (planned(body, 0) for _ in range(20))
    assert [first.difference(other) for other in others] == [None] * 19


@pytest.mark.parametrize(
    ("body", "written"),
    [
        ("Y[i] = X[i] * 2.0f;", {1}),
        ("*(float4*)(Y + (i * 4)) = *(float4*)(X + (i * 4));", {1}),
        ("Y[I[i]] = X[i];", {1, 2}),
        ("if (X[i] == 0.0f) { Y[i] = 1.0f; }", {1}),
        ("if (X[i] == 0.0f) Y[i] = 1.0f;", {0, 1}),
        ("Y[i] += X[i];", {1}),
        ("X[i]++; Y[i] = 0.0f;", {0, 1}),
        ("a = Y[i] = X[i];", {1}),
        ("add(&(X[i]), 1.0f); Y[i] = 0.0f;", {0, 1}),
        ("copy(Y, X, 4);", {0, 1}),
    ],
)
def test_what_a_kernel_may_write_to(body: str, written: set[int]) -> None:
    text = (
        f"int32_t k(float* X, float* Y, int32_t* I);\nint32_t k(float* X, float* Y, int32_t* I) {{ {body} return 0; }}"
    )
    given = KernelCode(name="k", kind="c", text=text, entry="k", parameters=("pointer",) * 3)
    assert written_positions(given) == written
    assert written_positions(given.model_copy(update={"kind": "ptx"})) == {0, 1, 2}
