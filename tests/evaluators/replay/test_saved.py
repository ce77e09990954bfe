"""A plan on disk computes what it was recorded to; what does not fit it, or is not of it, is refused."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import torch
from kernelwright.core.errors import DeviceError, ResultsError
from kernelwright.evaluators.pipeline.saved_plan import SavedPlan, load_plan
from kernelwright.evaluators.replay.record import Recorder
from kernelwright.evaluators.replay.saved import save_plan
from kernelwright.evaluators.workers.tensor_ipc import write
from torch import nn

from .test_record import CODE, launching


class Shifted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))
        self.table = torch.tensor([1.0, 2.0, 3.0])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.weight + self.table


def saved(folder: Path) -> Path:
    recorder = Recorder()
    plan = recorder.record(Shifted(), [torch.zeros(2, 3)])
    constants = folder.with_suffix(".bin")
    save_plan(plan, write(list(recorder.constants.values()), constants), constants, folder)
    return folder


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> SavedPlan:
    return load_plan(saved(tmp_path_factory.mktemp("loaded") / "plan"))


def test_it_computes_with_weights_that_need_gradients(plan: SavedPlan) -> None:
    assert plan([torch.ones(2, 3)], dict(Shifted().named_parameters())).tolist() == [[2.0, 3.0, 4.0]] * 2


@pytest.mark.parametrize("inputs", [[], [3], [torch.zeros(3, 2)], [torch.zeros(2, 3, device="meta")]])
def test_what_does_not_fit_is_refused(inputs: list[object], plan: SavedPlan) -> None:
    with pytest.raises(ResultsError):
        plan(inputs, {"weight": torch.ones(3)})
    with pytest.raises(DeviceError, match="needs a GPU"):
        plan.captured(inputs, {})


def test_constants_of_another_plan_are_refused(tmp_path: Path) -> None:
    folder = saved(tmp_path / "plan")
    constants = folder / "constants.bin"
    constants.write_bytes(bytes(len(constants.read_bytes())))
    with pytest.raises(ResultsError, match=r"constants\.bin is not of this plan"):
        load_plan(folder)


def test_of_a_folder_only_the_plan_is_read(tmp_path: Path) -> None:
    """Machine code that lies beside a plan is not loaded, and nothing is written there."""
    folder = tmp_path / "plan"
    save_plan(launching({"tensor": 0}, 4), [], tmp_path / "none", folder)
    before = sorted(folder.iterdir())
    assert load_plan(folder)([torch.zeros(4)], {}).tolist() == [1.0] * 4
    assert sorted(folder.iterdir()) == before


def test_a_plan_takes_the_place_of_another(tmp_path: Path) -> None:
    save_plan(launching({"tensor": 0}, 4), [], tmp_path / "none", tmp_path / "plan")
    assert [path.name for path in (tmp_path / "plan").glob("*.c")] == [f"add.{CODE.digest[:8]}.c"]
    folder = saved(tmp_path / "plan")
    assert {path.name for path in folder.iterdir()} == {"plan.json", "constants.json", "constants.bin"}


@pytest.mark.parametrize("device", ["cuda:99", "gpu"])
def test_a_device_that_is_not_there_is_named(device: str, tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match=f"no device {device}"):
        load_plan(tmp_path, device)


CLAIMS = {
    "an unknown kernel": ("steps", lambda steps: [*steps, {"kind": "launch", "code": "none", "arguments": []}]),
    "an unknown input": ("inputs", lambda inputs: [*inputs, 77]),
    "less than nothing": ("layouts", lambda all_: {n: {**layout, "shape": [-4]} for n, layout in all_.items()}),
    "more than all memory": ("layouts", lambda all_: {n: {**layout, "shape": [1 << 46]} for n, layout in all_.items()}),
    "more than a number": (
        "layouts",
        lambda all_: {n: {**layout, "shape": [1 << 40] * 40} for n, layout in all_.items()},
    ),
    "a long dtype": (
        "layouts",
        lambda all_: {n: {**layout, "dtype": "float" + "9" * 5000} for n, layout in all_.items()},
    ),
}


@pytest.mark.parametrize("claim", CLAIMS)
def test_what_a_folder_claims_is_checked_before_it_is_used(claim: str, tmp_path: Path) -> None:
    folder = saved(tmp_path / "plan")
    name, change = CLAIMS[claim]
    told = json.loads((folder / "plan.json").read_text())
    told[name] = change(told[name])
    (folder / "plan.json").write_text(json.dumps(told))
    with pytest.raises(ResultsError, match="no launch plan in"):
        load_plan(folder)


@pytest.mark.parametrize("name", ["plan.json", "constants.json", "constants.bin"])
@pytest.mark.parametrize("form", ["a link", "a device", "a pipe", "a large file"])
def test_of_a_folder_only_small_plain_files_are_read(name: str, form: str, tmp_path: Path) -> None:
    folder = saved(tmp_path / "plan")
    path = folder / name
    content = path.read_bytes()
    path.unlink()
    if form == "a link":
        (tmp_path / "elsewhere").write_bytes(content)
        path.symlink_to(tmp_path / "elsewhere")
    elif form == "a device":
        path.symlink_to("/dev/zero")
    elif form == "a pipe":
        os.mkfifo(path)
    else:
        path.write_bytes(content)
        os.truncate(path, 1 << 42)  # without content: it takes no room
        if name == "constants.bin":
            pytest.skip("what is behind the constants is not read")
    with pytest.raises(ResultsError, match="no launch plan in"):
        load_plan(folder)


def test_what_is_said_of_results_is_not_believed(tmp_path: Path) -> None:
    plan = load_plan(saved(tmp_path / "plan"))
    really, claim = plan._replayer.called, {}

    def called(*args: object) -> object:
        found = really(*args)
        (tensor,) = found.outputs[0]
        return found.model_copy(update={"outputs": [[tensor.model_copy(update=claim)]]})

    plan._replayer.called = called  # type: ignore[method-assign,assignment]
    with plan:
        for name, value in (("shape", [1 << 45]), ("shape", [-1]), ("shape", [1 << 80]), ("dtype", "load")):
            claim = {name: value}
            with pytest.raises(ResultsError):
                plan([torch.ones(2, 3)], {"weight": torch.ones(3)})
        claim = {}
        assert plan([torch.ones(2, 3)], {"weight": torch.ones(3)}).shape == (2, 3)
