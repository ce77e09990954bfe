"""Parts of a deployed package: visible launches, launches that are examined anew, what a row of the table serves."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from kernelwright.core import KernelError, PythonKernel, TorchProblem
from kernelwright.core.language import Target
from kernelwright.core.languages import TILELANG
from kernelwright.deploy.launches import with_visible_launches
from kernelwright.deploy.package.dispatch import Dispatch, TableRow, key_of
from kernelwright.deploy.package.launch import launch
from kernelwright.deploy.source import MeasuredKernel, common_licence, licence_of, measured_kernel
from torch._subclasses.fake_tensor import FakeTensorMode

from .hand_made import REFERENCE

KERNEL = """import triton
import triton.language as tl


@triton.jit
def helper(x):
    return x * 2


@triton.jit
def scale(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    tl.store(y_ptr, helper(tl.load(x_ptr)))


class ModelNew:
    def forward(self, x, y):
        scale[(4,)](x, y, 8, BLOCK=16)
"""


def test_launches_become_visible_and_kernels_stay_as_they_are() -> None:
    source, traceable = with_visible_launches(KERNEL)
    assert traceable
    assert "        visible_launch(scale)[(4,)](x, y, 8, BLOCK=16)\n" in source
    assert "from ..launch import launch as visible_launch\n" in source and "helper(tl.load(x_ptr))" in source


@pytest.mark.parametrize(
    "other", ["KERNELS = [scale]\n", "run = scale.run\n", "x = TensorDescriptor\n", "tl.make_tensor_descriptor\n"]
)
def test_other_uses_of_a_kernel_are_not_traced(other: str) -> None:
    source, traceable = with_visible_launches(KERNEL + other)
    assert not traceable and "visible_launch(scale)[(4,)]" in source


def test_a_launch_of_the_file_stays_its_own() -> None:
    own = (
        KERNEL.replace("        scale[", "        launch(scale)[")
        + "def launch(kernel):\n    kernel[(4,)]()\n    return kernel\n"
    )
    source, _ = with_visible_launches(own + "scale[(1,)]()\n")
    assert "        launch(scale)[(4,)]" in source and "visible_launch(scale)[(1,)]()" in source
    with pytest.raises(KernelError, match="has a name visible_launch, which its package needs"):
        with_visible_launches(source)


class CompiledStandIn:
    """Stands for a compiled kernel of Triton's."""

    def __init__(self) -> None:
        self.launched: list[tuple[Any, ...]] = []

    def __getitem__(self, grid: tuple[int, int, int]) -> Callable[..., None]:
        return lambda *arguments: self.launched.append((grid, *arguments))


class JITFunction:
    """Stands for Triton's class of this name: a launch examines its arguments and returns the compiled kernel."""

    def __init__(self) -> None:
        self.pre_run_hooks: list[Any] = []
        self.examined: list[tuple[Any, ...]] = []
        self.compiled = CompiledStandIn()
        self.fn = lambda x, y, n, BLOCK, EVEN=False: None

    def __getitem__(self, grid: Any) -> Callable[..., CompiledStandIn]:
        def run(*arguments: Any, **_: Any) -> CompiledStandIn:
            self.examined.append(arguments)
            return self.compiled

        return run


def test_a_kernel_is_examined_once_for_each_set_of_arguments() -> None:
    kernel = JITFunction()
    x, y = torch.ones(65), torch.ones(64)
    for first, n in ((x[:64], 8), (y, 8), (x[:64], 9), (x[1:], 8)):
        for _ in range(2):
            launch(kernel)[(4,)](first, y, n, BLOCK=16, num_warps=4)
    # Other memory at the same alignment needs no examination; another number and another alignment do.
    assert [(n, first.data_ptr() % 16) for first, _, n in kernel.examined] == [(8, 0), (9, 0), (8, 4)]
    assert len(kernel.compiled.launched) == 5
    grid, _, _, *others = kernel.compiled.launched[0]
    assert (grid, others) == ((4, 1, 1), [8, 16, False])


def test_unknown_arguments_are_examined_every_time() -> None:
    kernel = JITFunction()
    for _ in range(2):
        launch(kernel)[(4,)](object(), torch.ones(4), 8, BLOCK=16)
    assert len(kernel.examined) == 2 and kernel.compiled.launched == []


ROW = TableRow(
    kernel="k",
    device="cpu",
    arguments=(["float32", ["tokens", 4]], ["float32", ["2*tokens"]], 0.5),
    free=("tokens", 2, 8),
    sizes={},
)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ((torch.ones(2, 4), torch.ones(4), 0.5), ""),
        ((torch.ones(8, 4), torch.ones(16), 0.5), ""),
        ((torch.ones(9, 4), torch.ones(18), 0.5), "sizes"),
        ((torch.ones(3, 4), torch.ones(8), 0.5), "sizes"),
        ((torch.ones(3, 4), torch.ones(7), 0.5), "sizes"),
        ((torch.ones(3, 4, 1), torch.ones(6), 0.5), "sizes"),
        ((torch.ones(3, 4), torch.ones(6), 0.25), "values"),
        ((torch.ones(4, 3).t(), torch.ones(6), 0.5), "strides"),
        ((torch.ones(13)[1:].view(3, 4), torch.ones(6), 0.5), "strides"),
        ((torch.eye(3, 4).to_sparse(), torch.ones(6), 0.5), "strides"),
        ((torch.ones(3, 4).double(), torch.ones(6), 0.5), "dtype"),
        ((torch.ones(3, 4, device="meta"), torch.ones(6), 0.5), "device"),
    ],
)
def test_what_a_row_serves(arguments: tuple[Any, ...], reason: str) -> None:
    dispatch = Dispatch("mylib::k", [ROW])
    for _ in range(2):  # the second time it is remembered
        if reason:
            warning = pytest.warns(UserWarning, match=f"no kernel for these {reason}")
            with nullcontext() if dispatch.counted else warning:
                assert dispatch.row(arguments, key_of(arguments)) is None
        else:
            assert dispatch.row(arguments, key_of(arguments)) is ROW
    assert dict(dispatch.counted) == ({reason: 2} if reason else {})


def test_tensors_of_two_gpus_are_not_served() -> None:
    row = replace(ROW, device="cuda")
    with FakeTensorMode():
        pairs = [(torch.ones(3, 4, device="cuda:0"), torch.ones(6, device=f"cuda:{gpu}")) for gpu in (0, 1)]
    assert [row.mismatch((*pair, 0.5)) for pair in pairs] == ["", "device"]


@pytest.mark.parametrize(
    ("comment", "licence"),
    [
        ("# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception\n", "Apache-2.0 WITH LLVM-exception"),
        ("# All rights reserved. Redistribution and use in source and binary forms are permitted\n", ""),
        ("", ""),
    ],
)
def test_licences_that_allow_it(tmp_path: Path, comment: str, licence: str) -> None:
    assert licence_of(tmp_path, comment + "MESSAGE = 'confidential'\n") == licence


@pytest.mark.parametrize(
    "text", ["SPDX-License-Identifier: CC-BY-NC-4.0", "for noncommercial use", "Do not distribute"]
)
def test_licences_that_forbid_it(tmp_path: Path, text: str) -> None:
    with pytest.raises(KernelError, match="so its licence forbids to deploy it"):
        licence_of(tmp_path, f"# {text}\n")


def stating(kernel: str, reference: str) -> MeasuredKernel:
    """A result whose kernel and reference have these comments."""
    problem = TorchProblem("level1/1_1", "squared", f"# {reference}\n{REFERENCE}")
    figures = dict.fromkeys(("latency_ms", "reference_ms", "speedup_ratio", "max_abs_error"), 1.0)
    header = {"correctness": True, "replayed": True, "workload": "default", "sizes": {}, **figures}
    source = f'"""\nEvaluation Result: {header!r}\n"""\n# {kernel}\n'
    return measured_kernel(Path("result.py"), PythonKernel(TILELANG, Target.CPU, source, "squared"), problem)


GPL, MIT = "SPDX-License-Identifier: GPL-3.0", "SPDX-License-Identifier: MIT"


@pytest.mark.parametrize(
    ("kernel", "reference", "given", "licence"),
    [
        ("", "", None, ""),
        ("", "", "MIT", "MIT"),
        ("", GPL, None, "GPL-3.0"),
        (MIT, MIT, None, "MIT"),
        (MIT, GPL, "GPL-3.0 AND MIT", "GPL-3.0 AND MIT"),
    ],
)
def test_the_licence_of_a_package(kernel: str, reference: str, given: str | None, licence: str) -> None:
    assert common_licence([stating(kernel, reference)], given) == licence


@pytest.mark.parametrize(
    ("kernel", "reference", "given", "message"),
    [
        (GPL, "", "MIT", "a file is under GPL-3.0, which `license` must name"),
        (GPL, "", "LGPL-3.0", "a file is under GPL-3.0"),
        (MIT, GPL, None, "state different licences; give `license`, 'GPL-3.0 AND MIT'"),
        (MIT, "Proprietary", None, "squared says 'Proprietary'"),
    ],
)
def test_a_licence_is_kept(kernel: str, reference: str, given: str | None, message: str) -> None:
    with pytest.raises(KernelError, match=message):
        common_licence([stating(kernel, reference)], given)
