"""Modules of two to five launches for a CPU, composed of stages: each is a TileLang kernel with a space of its own."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kernelwright.core import PythonKernel, TorchProblem

SIZE, COLUMNS = 1024, 64
"""Extent of each axis of each tensor, and the columns that a linear layer takes: so no stage has most of the time."""
MODULES = {
    "linear_center": ("linear", "center"),
    "linear_transpose_sums": ("linear", "transpose", "sums"),
    "linear_tanh_linear": ("linear", "tanh", "linear"),
    "linear_center_transpose_linear": ("linear", "center", "transpose", "linear"),
    "linear_sums_transpose_linear_center": ("linear", "sums", "transpose", "linear", "center"),
}
"""Stages of each module, in order."""
HEAD = """import functools

import tilelang
import tilelang.cpu.language as T
import torch
from torch import nn

COMPILE_FLAGS = ["-O3", "-march=native"]
"""
INPUTS = """

def get_inputs():
    return [torch.randn(N, N)]


def get_init_inputs():
    return []
"""
BUILDER = """
@functools.cache
def build_{name}(N: int, K: int):
    @T.prim_func
    def {name}({arguments}Y: T.Tensor((N, N), "float32")):
{body}
    return tilelang.compile({name}, out_idx=[-1], target="c", compile_flags=COMPILE_FLAGS)

"""


@dataclass(frozen=True)
class Stage:
    """One operation: in PyTorch, and as a kernel."""

    torch: str
    """Of x, and for a linear layer of its own weights."""
    arguments: str
    """The kernel's tensors before its result."""
    given: str
    values: Mapping[str, Sequence[int]]
    """By parameter, the kernel's own value first."""
    body: str
    constraint: str = ""


STAGES = {
    "linear": Stage(
        torch="self.linear_{n}(x[:, :K])",
        arguments='X: T.Tensor((N, N), "float32"), W: T.Tensor((K, N), "float32"), ',
        given="x, self.linear_{n}.weight.t().contiguous()",
        values={"BLOCK_M": (16, 4, 8, 32, 64), "BLOCK_N": (16, 32, 64, 128, 256), "BLOCK_K": (16, 4, 8, 32, 64)},
        constraint="BLOCK_M * BLOCK_N <= 8192",
        body="""
with T.Kernel(N // BLOCK_M, N // BLOCK_N) as (by, bx):
    acc = T.alloc_local((BLOCK_M, BLOCK_N), "float32")
    T.clear(acc)
    for ko in T.serial(K // BLOCK_K):
        for i in T.serial(BLOCK_M):
            for kk in T.serial(BLOCK_K):
                for j in T.serial(BLOCK_N):
                    acc[i, j] += X[by * BLOCK_M + i, ko * BLOCK_K + kk] * W[ko * BLOCK_K + kk, bx * BLOCK_N + j]
    for i, j in T.grid(BLOCK_M, BLOCK_N):
        Y[by * BLOCK_M + i, bx * BLOCK_N + j] = acc[i, j]
""",
    ),
    "center": Stage(
        torch="x - x.mean(0)",
        arguments='X: T.Tensor((N, N), "float32"), ',
        given="x",
        values={"BLOCK_N": (8, 1, 2, 4, 16, 32, 64, 128, 256)},
        body="""
with T.Kernel(N // BLOCK_N) as bx:
    acc = T.alloc_local((BLOCK_N,), "float32")
    T.clear(acc)
    for i in T.serial(N):
        for j in T.serial(BLOCK_N):
            acc[j] += X[i, bx * BLOCK_N + j]
    for i in T.serial(N):
        for j in T.serial(BLOCK_N):
            Y[i, bx * BLOCK_N + j] = X[i, bx * BLOCK_N + j] - acc[j] / N
""",
    ),
    "sums": Stage(
        torch="x.cumsum(0)",
        arguments='X: T.Tensor((N, N), "float32"), ',
        given="x",
        values={"BLOCK_N": (8, 1, 2, 4, 16, 32, 64, 128, 256)},
        body="""
with T.Kernel(N // BLOCK_N) as bx:
    acc = T.alloc_local((BLOCK_N,), "float32")
    T.clear(acc)
    for i in T.serial(N):
        for j in T.serial(BLOCK_N):
            acc[j] += X[i, bx * BLOCK_N + j]
            Y[i, bx * BLOCK_N + j] = acc[j]
""",
    ),
    "transpose": Stage(
        torch="x.t()",
        arguments='X: T.Tensor((N, N), "float32"), ',
        given="x",
        values={"BLOCK_R": (1, 2, 4, 8, 16, 32, 64), "BLOCK_C": (256, 1, 2, 4, 8, 16, 32, 64)},
        body="""
with T.Kernel(N // BLOCK_R, N // BLOCK_C) as (by, bx):
    for i in T.serial(BLOCK_R):
        for j in T.serial(BLOCK_C):
            Y[by * BLOCK_R + i, bx * BLOCK_C + j] = X[bx * BLOCK_C + j, by * BLOCK_R + i]
""",
    ),
    "tanh": Stage(
        torch="torch.tanh(x)",
        arguments='X: T.Tensor((N, N), "float32"), ',
        given="x",
        values={"BLOCK_R": (1, 4, 16, 64), "BLOCK_C": (4, 1, 8, 16, 64, 256)},
        body="""
with T.Kernel(N // BLOCK_R, N // BLOCK_C) as (by, bx):
    for i in T.serial(BLOCK_R):
        for j in T.serial(BLOCK_C):
            Y[by * BLOCK_R + i, bx * BLOCK_C + j] = T.tanh(X[by * BLOCK_R + i, bx * BLOCK_C + j])
""",
    ),
}


def module_of(name: str) -> tuple[TorchProblem, PythonKernel]:
    """Return a module as a problem, and the kernel whose launches are searched."""
    stages = [(number, kind, STAGES[kind]) for number, kind in enumerate(MODULES[name])]
    layers = [f"self.linear_{number} = nn.Linear(K, N, bias=False)" for number, kind, _ in stages if kind == "linear"]
    init = "".join(f"        {line}\n" for line in ["super().__init__()", *layers])
    there = "".join(f"        x = {stage.torch.format(n=number)}\n" for number, _, stage in stages)
    here = "".join(
        f"        x = build_{kind}_{number}(N, K)({stage.given.format(n=number)})\n" for number, kind, stage in stages
    )
    model = f"    def __init__(self):\n{init}\n    def forward(self, x):\n"
    problem = f"import torch\nfrom torch import nn\n\nN, K = {SIZE}, {COLUMNS}\n\n\nclass Model(nn.Module):\n"
    problem += f"{model}{there}        return x\n{INPUTS}"
    space, constants, constraints, builders = dict[str, list[int]](), [], [], []
    for number, kind, stage in stages:
        text, constraint = stage.body, stage.constraint
        for parameter, values in stage.values.items():
            own = f"{parameter}_{number}"
            space[own] = sorted(values)
            constants.append(f"{own} = {values[0]}")
            text, constraint = text.replace(parameter, own), constraint.replace(parameter, own)
        constraints += [constraint] if constraint else []
        body = "".join(f"        {line}\n" for line in text.strip().splitlines())
        builders.append(BUILDER.format(name=f"{kind}_{number}", arguments=stage.arguments, body=body))
    declared = f"SEARCH_SPACE = {json.dumps(space)}\nCONSTRAINTS = {json.dumps(constraints)}\n"
    source = "\n".join([HEAD, f"N, K = {SIZE}, {COLUMNS}", *constants, declared, *builders])
    source += f"\nclass ModelNew(nn.Module):\n{model}{here}        return x\n"
    return TorchProblem(f"launches/{name}", name, problem), PythonKernel.parse(source, name)
