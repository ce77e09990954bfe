"""`torch._scaled_mm` beside block-scaled products: its problem and kernel on a CPU, the times on a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from kernelwright.commands.tune._gemm_compiled import device_of_architecture
from kernelwright.commands.tune._gemm_options import Options, task_of
from kernelwright.commands.tune._gemm_result import describe
from kernelwright.core import Config, Kernel, ProblemError, TorchProblem
from kernelwright.core.events import Event, Note, ignore
from kernelwright.corpus import find_kernel, find_problem
from kernelwright.tuners.gemm.device import Device
from kernelwright.tuners.gemm.library import library_kernel, library_problem
from kernelwright.tuners.gemm.result import ShapeResult
from kernelwright.tuners.gemm.shape_search import _reference_ms
from kernelwright.tuners.gemm.shapes import Shape
from kernelwright.tuners.gemm.sweep import Sweep

from ...conftest import OnGpu

SIZES = {"M": 48, "N": 256, "K": 384}


def problem() -> TorchProblem:
    return library_problem(find_problem("gemm/a8w8_blockscale").read().resized("test", SIZES))


def loaded(source: str) -> dict[str, Any]:
    found: dict[str, Any] = {"__name__": "loaded"}
    exec(compile(source, "loaded", "exec"), found)
    found.update(SIZES)
    return found


def test_scales_of_a_are_stored_column_by_column() -> None:
    module = loaded(problem().source)
    a, b, a_scales, b_scales = module["get_inputs"]()
    assert a_scales.shape == (48, 3) and a_scales.stride() == (1, 48)
    expected = module["Model"]()(a, b, a_scales, b_scales)
    plain = loaded(find_problem("gemm/a8w8_blockscale").read().source)
    assert torch.equal(expected, plain["Model"]()(a, b, a_scales.contiguous(), b_scales))


def test_on_a_gpu_the_librarys_call_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """With operands as torch documents them: B and the scales of B transposed."""
    asked: list[Any] = []
    monkeypatch.setattr(torch, "_scaled_mm", lambda *given, **options: asked.append((given, options)))

    def faked(shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Any:
        return SimpleNamespace(is_cuda=True, dtype=dtype, shape=shape, t=lambda: ("transposed", shape))

    inputs = (
        faked((48, 384), torch.float8_e4m3fn),
        faked((256, 384), torch.float8_e4m3fn),
        faked((48, 3)),
        faked((2, 3)),
    )
    loaded(problem().source)["Model"]()(*inputs)
    ((given, options),) = asked
    assert given == (inputs[0], ("transposed", (256, 384)))
    assert options == {"scale_a": inputs[2], "scale_b": ("transposed", (2, 3)), "out_dtype": torch.bfloat16}


def test_the_kernel_reads_such_scales() -> None:
    shipped = find_kernel("gemm/a8w8_blockscale", "triton").read()
    source = library_kernel(shipped).source
    assert "as_ptr + offs_m\n" in source and "as_ptrs + block * M" in source
    assert source.count("blocks_k, M, SCALED") == shipped.source.count("blocks_k, SCALED")


def task(device: Device, timed: bool = True) -> Any:
    return task_of(Options(product="a8w8_blockscale", m=(16,), n=256, k=256), device, timed)


def test_it_is_compared_where_it_is() -> None:
    assert task(device_of_architecture("sm_90")).library is not None
    for name in ("sm_100", "gfx942"):
        assert task(device_of_architecture(name)).library is None
    assert task(device_of_architecture("sm_90"), timed=False).library is None


def test_a_shape_that_the_library_refuses_has_no_time_and_a_note() -> None:
    class Refusing:
        def compare(self, problem: TorchProblem, kernel: Kernel, configs: Sequence[Config]) -> list[Any]:
            raise ProblemError("the reference fails: K is not a multiple of 16")

    refusing, events = Refusing(), list[Event]()
    kernel = find_kernel("gemm/a8w8_blockscale", "triton").read()
    assert _reference_ms(cast("Any", refusing), problem(), kernel, events.append) is None
    (note,) = events
    assert isinstance(note, Note) and "is not timed: the reference fails: K is not a multiple of 16" in note.text


def test_results_tell_of_it() -> None:
    shape = Shape(n=4096, k=7168, m=4096)
    result = ShapeResult(shape, Config({"NUM_WARPS": 4}), time_ms=0.4, library_ms=0.2)
    assert result.over_library == pytest.approx(0.5)
    assert "0.50x torch._scaled_mm (1202.6 TFLOP/s)" in describe(result)
    record = result.to_json()
    assert (record["library_ms"], record["times_the_library"]) == (0.2, pytest.approx(0.5))
    assert ShapeResult.of_json(record).library_ms == 0.2
    del record["library_ms"]  # an older sweep's
    assert ShapeResult.of_json(record).library_ms is None


@pytest.mark.gpu
def test_the_library_is_timed_on_hopper(on_gpu: OnGpu, tmp_path: Path) -> None:
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("torch._scaled_mm takes block scales on compute capability 9.0")
    options = Options(product="a8w8_blockscale", m=(1024,), n=4096, k=7168, trials=3)
    with on_gpu() as evaluator:
        sweep = Sweep(task_of(options, Device.of_torch(), True), [evaluator], tmp_path, ignore)
        (result,) = sweep.run([Shape(n=4096, k=7168, m=1024)])
    assert result.time_ms and result.library_ms and result.over_library
    assert 0.05 < result.over_library < 20
