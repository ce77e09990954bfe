"""
Problem Name: 10_ConvTranspose2d_MaxPool_Hardtanh_Mean_Tanh
Evaluation Result: {'compiled': True, 'correctness': True, 'speedup_ratio': 1.6548, 'interval': [1.6249, 1.685], 'latency_ms': 1.2284950000000001, 'reference_ms': 2.0328925, 'start_latency_ms': 4.2171515, 'samples': 148, 'seeds': [428193131, 593776478, 1646605511], 'max_abs_error': 2.980232238769531e-07, 'tolerance': 0.0001, 'workload': 'cpu', 'sizes': {'batch_size': 4, 'height': 32, 'width': 32}, 'device': 'Intel(R) Xeon(R) Processor, 2 cores', 'python': '3.11.7', 'torch': '2.13.0+cpu', 'threads': '2', 'tilelang': '0.1.15', 'triton': '3.9.0'}

Transposed convolution in gather form over a zero-bordered copy of the input, BLOCK_Y output rows of one
channel per grid step; then a second kernel, one channel per grid step: max pooling, hardtanh, mean, tanh.
"""

from concurrent.futures import ThreadPoolExecutor
import functools

import tilelang
import tilelang.cpu.language as T
import torch
from torch import nn

COMPILE_FLAGS = ["-O3", "-march=native"]

BLOCK_Y = 4

SEARCH_SPACE = {"BLOCK_Y": [1, 2, 4, 8, 16, 32]}

TILE = 4

THREADS = 2
POOL = ThreadPoolExecutor(max_workers=1)


def over_threads(kernel, outputs):
    """A function that runs the THREADS parts of a kernel's grid at the same time.

    Compiled code runs without the interpreter's lock. The kernel's last argument is the part.
    """
    params = kernel.params[:-1]

    def run(*inputs):
        given = iter(inputs)
        tensors = [
            torch.empty(tuple(map(int, p.shape)), dtype=p.torch_dtype()) if i in outputs else next(given)
            for i, p in enumerate(params)
        ]
        others = [POOL.submit(kernel, *tensors, part) for part in range(1, THREADS)]
        kernel(*tensors, 0)
        for other in others:
            other.result()
        results = [tensors[i] for i in sorted(outputs)]
        return results[0] if len(results) == 1 else results

    return run


@functools.cache
def build_pad(B: int, C: int, H: int, W: int, border: int):
    HP, WP = H + 2 * border, W + 2 * border

    @T.prim_func
    def pad(X: T.Tensor((B, C, H, W), "float32"), XP: T.Tensor((B, C, HP, WP), "float32"), part: T.int32):
        with T.Kernel(T.ceildiv(B, THREADS), C) as (b_in_part, c):
            T.assume(part >= 0)
            T.assume(part < THREADS)
            b = part * T.ceildiv(B, THREADS) + b_in_part
            if b < B:
                for y, x in T.grid(HP, WP):
                    XP[b, c, y, x] = 0.0
                for y, x in T.grid(H, W):
                    XP[b, c, y + border, x + border] = X[b, c, y, x]

    return over_threads(tilelang.compile(pad, target="c", compile_flags=COMPILE_FLAGS), {-1 % (len(pad.params) - 1)})


@functools.cache
def build_conv_transpose(B: int, CI: int, CO: int, HP: int, WP: int, KS: int):
    OH, OW = HP - KS + 1, WP - KS + 1

    @T.prim_func
    def conv_transpose(
        XP: T.Tensor((B, CI, HP, WP), "float32"),
        weight: T.Tensor((CI, CO, KS, KS), "float32"),
        bias: T.Tensor((CO,), "float32"),
        Y: T.Tensor((B, CO, OH, OW), "float32"),
        part_2: T.int32,
    ):
        with T.Kernel(T.ceildiv(B, THREADS), T.ceildiv(CO, TILE), T.ceildiv(OH, BLOCK_Y)) as (b_in_part_2, co, by):
            T.assume(part_2 >= 0)
            T.assume(part_2 < THREADS)
            b = part_2 * T.ceildiv(B, THREADS) + b_in_part_2
            if b < B:
                acc = T.alloc_local((TILE, BLOCK_Y, OW), "float32")
                for i0, i1 in T.grid(BLOCK_Y, OW):
                    for step in T.unroll(TILE):
                        acc[step, i0, i1] = bias[(co * TILE + step)]
                for ci in T.serial(CI):
                    for ky, kx in T.grid(KS, KS):
                        for y, x in T.grid(BLOCK_Y, OW):
                            for step in T.unroll(TILE):
                                # The flipped kernel turns the scatter of the definition into a gather.
                                acc[step, y, x] += (
                                    XP[b, ci, by * BLOCK_Y + y + ky, x + kx]
                                    * weight[ci, (co * TILE + step), KS - 1 - ky, KS - 1 - kx]
                                )
                for y, x in T.grid(BLOCK_Y, OW):
                    for step in T.unroll(TILE):
                        Y[b, (co * TILE + step), by * BLOCK_Y + y, x] = acc[step, y, x]

    return over_threads(
        tilelang.compile(conv_transpose, target="c", compile_flags=COMPILE_FLAGS),
        {-1 % (len(conv_transpose.params) - 1)},
    )


@functools.cache
def build_pool_mean(B: int, C: int, H: int, W: int, KP: int, SP: int, lo: float, hi: float):
    PH, PW = (H - KP) // SP + 1, (W - KP) // SP + 1

    @T.prim_func
    def pool_mean(X: T.Tensor((B, C, H, W), "float32"), Y: T.Tensor((B, C), "float32"), part_3: T.int32):
        with T.Kernel(T.ceildiv(B, THREADS), C) as (b_in_part_3, c):
            T.assume(part_3 >= 0)
            T.assume(part_3 < THREADS)
            b = part_3 * T.ceildiv(B, THREADS) + b_in_part_3
            if b < B:
                top = T.alloc_local((1,), "float32")
                acc = T.alloc_local((1,), "float32")
                acc[0] = 0.0
                for y, x in T.grid(PH, PW):
                    top[0] = X[b, c, y * SP, x * SP]
                    for dy, dx in T.grid(KP, KP):
                        top[0] = T.max(top[0], X[b, c, y * SP + dy, x * SP + dx])
                    acc[0] += T.min(T.max(top[0], lo), hi)
                Y[b, c] = T.tanh(acc[0] / (PH * PW))

    return over_threads(
        tilelang.compile(pool_mean, target="c", compile_flags=COMPILE_FLAGS), {-1 % (len(pool_mean.params) - 1)}
    )


class ModelNew(nn.Module):
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int,
        padding: int,
        maxpool_kernel_size: int,
        maxpool_stride: int,
        hardtanh_min: float,
        hardtanh_max: float,
    ):
        super().__init__()
        if stride != 1 or padding >= kernel_size:
            raise ValueError("the convolution is written for stride 1 and padding below the kernel size")
        self.conv_transpose = nn.ConvTranspose2d(in_channels, out_channels, kernel_size, stride=stride, padding=padding)
        self.maxpool = nn.MaxPool2d(maxpool_kernel_size, stride=maxpool_stride)
        self.hardtanh = nn.Hardtanh(hardtanh_min, hardtanh_max)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        conv, pool, clamp = self.conv_transpose, self.maxpool, self.hardtanh
        B, CI, H, W = x.shape
        CO, KS = conv.out_channels, conv.kernel_size[0]
        border = KS - 1 - conv.padding[0]

        pad = build_pad(B, CI, H, W, border)
        xp = pad(x.contiguous())
        conv_transpose = build_conv_transpose(B, CI, CO, xp.shape[2], xp.shape[3], KS)
        y = conv_transpose(xp, conv.weight, conv.bias)
        pool_mean = build_pool_mean(
            B, CO, y.shape[2], y.shape[3], pool.kernel_size, pool.stride, clamp.min_val, clamp.max_val
        )
        return pool_mean(y).view(B, CO, 1, 1)
