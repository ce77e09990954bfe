"""Inputs of checks and of timed calls: one generator draws both, and what they return is held to the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from kernelwright.core.problem import TOLERANCES
from kernelwright.evaluators.correctness.first_use import load_kernels
from kernelwright.evaluators.correctness.inputs import Buffers
from kernelwright.evaluators.languages.helpers import MOST
from kernelwright.evaluators.reference import handovers
from kernelwright.evaluators.reference.arithmetic import Arithmetic
from kernelwright.evaluators.reference.worker import LoadedWorkload
from kernelwright.evaluators.timing.priority import Scheduling
from kernelwright.evaluators.workers import memory
from kernelwright.evaluators.workers.handover import taken
from kernelwright.evaluators.workers.tensor_ipc import OpenMemory, write
from torch.utils._python_dispatch import TorchDispatchMode

PROBLEM = """
import torch
class Model(torch.nn.Module):
    def forward(self, x, y):
        return {forward}
def get_inputs(): return [{inputs}]
def get_init_inputs(): return []
"""
OTHER = {"seed": 9, "distribution": "signs", "place": 5}


class Served:
    """The requests of a reference worker, in this process."""

    def __init__(
        self, folder: Path, inputs: str = "torch.rand(64, 48), torch.rand(64, 48)", forward: str = "x + y"
    ) -> None:
        (folder / "problem.py").write_text(PROBLEM.format(inputs=inputs, forward=forward))
        tolerances = {dtype: list(tolerance) for dtype, tolerance in TOLERANCES.items()}
        options = {"problem": str(folder / "problem.py"), "sizes": {}, "device": "cpu", "tolerances": tolerances}
        workload = LoadedWorkload(options, Arithmetic(), Scheduling())
        self.reference, self.requests = workload.reference, SimpleNamespace(**workload.handlers)
        self.folder = folder
        self._inputs: list[Any] = []

    def handed(self, op: str, **request: Any) -> tuple[Any, list[list[Any]]]:
        """The response, and the inputs of each call as the process that replays makes them."""
        handed = getattr(self.requests, op)(folder=str(self.folder), share=False, **request)
        if handed["inputs"] is not None:
            self._inputs = [taken(values, "cpu", OpenMemory()) for values in handed["inputs"]]
        if handed["factors"] is not None:
            (self._factors,) = taken(handed["factors"], "cpu", OpenMemory())
        calls = []
        for number, start in handed["calls"]:
            values, buffers = self._inputs[number], Buffers()
            calls.append(buffers.fill(values) if start is None else buffers.scaled(values, self._factors[start:]))
        return handed, calls

    def checked(self, op: str, result: torch.Tensor, **request: Any) -> Any:
        """The verdict on a result."""
        path = self.folder / "outputs"
        outputs = write([result], path)
        outputs = [outputs] if op == "check_timed" else outputs
        return getattr(self.requests, op)(path=str(path), outputs=outputs, **request)


@pytest.fixture(autouse=True)
def without_gradients() -> Iterator[None]:
    with torch.no_grad():
        yield


@pytest.mark.parametrize(
    ("inputs", "kept"),
    [("torch.rand(64, 48), torch.rand(64, 48)", True), ("torch.arange(9), torch.randint(9, (9,))", False)],
)
def test_each_call_has_the_inputs_that_its_result_is_compared_on(tmp_path: Path, inputs: str, kept: bool) -> None:
    served = Served(tmp_path, inputs)
    for fresh, first, other in ((True, 0, None), (not kept, 3, None), (True, 6, OTHER)):
        request = {"seed": 3, "first": first, "count": 3, "fresh": fresh, "other": other}
        handed, calls = served.handed("hand_calls", **request)
        assert len(handed["drawn"]) == len(calls) == (3 if other is None else 4) and handed["kept"] is kept
        for drawn, values in zip(handed["drawn"], calls, strict=True):
            wanted = served.reference.inputs_of(*drawn)
            assert all(torch.equal(expected, value) for expected, value in zip(wanted, values, strict=True)), drawn
    assert handed["drawn"].index((9, "signs", 0)) == OTHER["place"] % 4


def test_a_check_has_the_inputs_of_a_timed_call(tmp_path: Path) -> None:
    served = Served(tmp_path)
    _, timed = served.handed("hand_calls", seed=3, first=0, count=6, fresh=True)
    for variant in (0, 5):
        _, (checked,) = served.handed("hand_inputs", seed=3, variant=variant)
        assert all(torch.equal(first, second) for first, second in zip(checked, timed[variant], strict=True))
    assert float(timed[0][0].max()) < 1 < float(timed[5][0].max())


def test_large_inputs_have_no_others_beside_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "LARGE", 30000)
    handed, calls = Served(tmp_path).handed("hand_calls", seed=3, first=0, count=2, fresh=True, other=OTHER)
    assert len(calls) == 2 and (3, None, 0) in handed["drawn"] and len(handed["inputs"]) == 1


@pytest.mark.parametrize("variant", [0, 5])
def test_every_result_that_is_compared_is_held_to_fp64(tmp_path: Path, variant: int) -> None:
    served = Served(tmp_path)
    exact = served.reference.inputs_of(1, None, 0)
    first = {"written": [], "hold": True, "precise": True, "seed": 1}
    assert served.checked("check", exact[0] + exact[1], **first)["status"] == "ok"
    x, y = served.reference.inputs_of(2, None, variant)
    rounded = ((x + y) * 16384).round() / 16384  # within the tolerance
    requests = {
        "check": {"seed": 2, "variant": variant, "written": []},
        "check_timed": {"weights": 1, "drawn": [[2, None, variant]]},
    }
    for op, request in requests.items():
        assert served.checked(op, x + y, **request)["status"] == "ok"
        found = served.checked(op, rounded, **request)
        assert found["status"] == "wrong_value" and found["message"].startswith("less exact than float32"), op


def test_a_trivial_result_of_a_timed_call_is_named(tmp_path: Path) -> None:
    served = Served(tmp_path, forward="x + 1e-6 * y")
    x, y = served.reference.inputs_of(2, None, 1)
    request = {"weights": 1, "drawn": [[2, None, 1]]}
    assert not served.checked("check_timed", x + 1e-6 * y, **request).get("trivial_output")
    assert served.checked("check_timed", x, **request)["trivial_output"] == "input 0"


def test_mixed_rows_are_compared_by_row_when_they_are_timed(tmp_path: Path) -> None:
    served = Served(tmp_path)
    x, y = served.reference.inputs_of(2, "mixed rows", 0)
    request = {"weights": 1, "drawn": [[2, "mixed rows", 0]]}
    assert served.checked("check_timed", x + y, **request)["status"] == "ok"
    quiet = torch.where((x + y).abs() < 1e-6, 0.0, x + y)
    assert "rows are wrong" in served.checked("check_timed", quiet, **request)["message"]


def test_a_signature_that_cannot_be_compiled_stops_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[list[str]] = []

    def build(signatures: list[list[str]]) -> None:
        if signatures == [["kfp32"]]:
            raise KeyError("kfp32")
        built.extend(signatures)

    monkeypatch.setattr(handovers, "support_of", lambda language: SimpleNamespace(build_helpers=build))
    served = Served(tmp_path)
    served.requests.build_helpers(language="triton", signatures=[["kfp32"], ["*fp32", "i32"]])
    assert built == [["*fp32", "i32"]]
    served.requests.build_helpers(language="triton", signatures=[[f"*fp{number}"] for number in range(100)])
    assert len(built) == MOST - 1, "an untrusted compiler names them: their number is limited"
    served.requests.build_helpers(language="triton", signatures=[["*fp32", "i32"]])
    assert len(built) == MOST - 1


def test_kernels_of_torch_are_loaded_with_what_checks_use() -> None:
    used: set[str] = set()

    class Noted(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            used.add(func.overloadpacket.__name__)
            return func(*args, **(kwargs or {}))

    with Noted():
        load_kernels("cpu")
    assert {"randn", "rand", "copy_", "mul", "equal", "full_like"} <= used
