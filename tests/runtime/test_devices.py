"""Which devices and how many compilers a search gets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from kernelwright.core import DeviceError
from kernelwright.evaluators.local import LocalEvaluator
from kernelwright.evaluators.multi_device import MultiDeviceEvaluator
from kernelwright.evaluators.settings import Limits, SearchSettings, Settings
from kernelwright.runtime import devices as choosing
from kernelwright.runtime import evaluators as making

GPU, GPUS = ["cuda:0"], ["cuda:0", "cuda:1"]


@contextmanager
def members(devices: list[str], compilers: int | None, adaptive: bool) -> Iterator[list[LocalEvaluator]]:
    """The evaluators of a search; none of them has started a process."""
    with making.search_evaluator(devices, compilers, adaptive, Settings(limits=Limits(compile_s=7.0))) as evaluator:
        yield list(evaluator._evaluators) if isinstance(evaluator, MultiDeviceEvaluator) else [evaluator]


@pytest.mark.parametrize(
    ("devices", "compilers", "adaptive", "expected"),
    [
        (["cpu"], None, False, SearchSettings(16, 16)),
        (["cpu"], None, True, SearchSettings(16, 16)),
        (GPU, None, False, SearchSettings(16, 64)),
        (GPU, None, True, SearchSettings(8, 8)),
        (GPUS, None, False, SearchSettings(8, 32)),
        (GPUS, None, True, SearchSettings(4, 4)),
        (["cpu"], 3, True, SearchSettings(3, 3)),
        (GPU, 3, False, SearchSettings(3, 12)),
        (GPU, 3, True, SearchSettings(3, 3)),
        (GPUS, 3, True, SearchSettings(3, 3)),
    ],
)
def test_a_given_number_is_taken_as_it_is(
    monkeypatch: pytest.MonkeyPatch, devices: list[str], compilers: int | None, adaptive: bool, expected: SearchSettings
) -> None:
    """The default is a share of the cores, half of it on a GPU where choices depend on results."""
    monkeypatch.setattr(making, "cores", lambda: 16)
    with members(devices, compilers, adaptive) as found:
        assert [member.device for member in found] == devices
        assert [member.settings.search for member in found] == [expected] * len(devices)
        assert all(member.settings.limits == Limits(compile_s=7.0) for member in found)


@pytest.mark.parametrize("cores", [1, 2])
def test_there_is_always_a_compiler(monkeypatch: pytest.MonkeyPatch, cores: int) -> None:
    monkeypatch.setattr(making, "cores", lambda: cores)
    with members(["cuda:0", "cuda:1", "cuda:2"], None, True) as found:
        assert {member.settings.search for member in found} == {SearchSettings(1, 1)}


@pytest.mark.parametrize(
    ("wanted", "present", "devices"),
    [
        ("auto", 0, ["cpu"]),
        ("auto", 2, ["cuda"]),
        ("cpu", 2, ["cpu"]),
        ("cuda:1", 2, ["cuda:1"]),
        ("cuda:0, cuda:1", 2, ["cuda:0", "cuda:1"]),
    ],
)
def test_devices(monkeypatch: pytest.MonkeyPatch, wanted: str, present: int, devices: list[str]) -> None:
    monkeypatch.setattr(choosing, "cuda_devices", lambda: present)
    assert choosing.choose_devices(wanted) == devices


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        ("cuda:0,cuda:2", "no device cuda:2: the driver shows 2"),
        ("cuda:0,cuda:0", "names a device twice"),
        ("cpu,cuda:0", "several devices must all be GPUs"),
        ("cuda:0,", "use cpu, cuda, cuda:N or auto"),
    ],
)
def test_devices_that_cannot_be(monkeypatch: pytest.MonkeyPatch, wanted: str, says: str) -> None:
    monkeypatch.setattr(choosing, "cuda_devices", lambda: 2)
    with pytest.raises(DeviceError, match=says):
        choosing.choose_devices(wanted)
