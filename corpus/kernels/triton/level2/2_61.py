"""Transposed 3-d convolution (stride 1, no padding) with ReLU as an implicit GEMM in gather form
(output channels x output voxels), then one program per (sample, group) for the group norm."""

import torch
import triton
import triton.language as tl
from torch import nn

BLOCK_CO = 64
BLOCK_P = 64
BLOCK_CI = 32
CONV_NUM_WARPS = 4
CONV_NUM_STAGES = 2
NORM_BLOCK = 4096
NORM_NUM_WARPS = 8

SEARCH_SPACE = {
    "BLOCK_CO": [32, 64, 128],
    "BLOCK_P": [32, 64, 128],
    "BLOCK_CI": [16, 32, 64],
    "CONV_NUM_WARPS": [4, 8],
    "CONV_NUM_STAGES": [2, 3, 4],
    "NORM_BLOCK": [1024, 2048, 4096, 8192],
    "NORM_NUM_WARPS": [4, 8, 16],
}
CONSTRAINTS = [
    "BLOCK_CO * BLOCK_P <= CONV_NUM_WARPS * 32 * 64",
    "(BLOCK_CO + BLOCK_P) * BLOCK_CI * 4 * CONV_NUM_STAGES <= 227 * 1024",
]


@triton.jit
def conv_transpose3d_relu_kernel(
    x_ptr,
    w_ptr,
    bias_ptr,
    y_ptr,
    CI,
    CO,
    ID,
    IH,
    IW,
    OD,
    OH,
    OW,
    KD,
    KH,
    KW,
    n_tiles,
    HAS_BIAS: tl.constexpr,
    BLOCK_CO: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_CI: tl.constexpr,
):
    sample = (tl.program_id(0) // n_tiles).to(tl.int64)
    tile = tl.program_id(0) % n_tiles
    n_voxels = OD * OH * OW
    x_ptr += sample * CI * ID * IH * IW
    y_ptr += sample * CO * n_voxels
    voxels = tile * BLOCK_P + tl.arange(0, BLOCK_P)
    od = voxels // (OH * OW)
    oh = voxels // OW % OH
    ow = voxels % OW
    co = tl.program_id(1) * BLOCK_CO + tl.arange(0, BLOCK_CO)
    ci = tl.arange(0, BLOCK_CI)

    acc = tl.zeros((BLOCK_CO, BLOCK_P), dtype=tl.float32)
    for kd in range(KD):
        for kh in range(KH):
            for kw in range(KW):
                # The input voxel that reaches (od, oh, ow) through tap (kd, kh, kw), if there is one.
                d = od - kd
                h = oh - kh
                w = ow - kw
                hit = (d >= 0) & (d < ID) & (h >= 0) & (h < IH) & (w >= 0) & (w < IW)
                hit = hit & (voxels < n_voxels)
                for start in range(0, CI, BLOCK_CI):
                    c = start + ci
                    w_tile = tl.load(
                        w_ptr + (((c[None, :] * CO + co[:, None]) * KD + kd) * KH + kh) * KW + kw,
                        mask=(co[:, None] < CO) & (c[None, :] < CI),
                        other=0.0,
                    )
                    x_tile = tl.load(
                        x_ptr + ((c[:, None] * ID + d[None, :]) * IH + h[None, :]) * IW + w[None, :],
                        mask=(c[:, None] < CI) & hit[None, :],
                        other=0.0,
                    )
                    acc = tl.dot(w_tile, x_tile, acc, input_precision="ieee")

    if HAS_BIAS:
        acc += tl.load(bias_ptr + co, mask=co < CO, other=0.0)[:, None]
    acc = tl.where(acc < 0.0, 0.0, acc)
    mask = (co[:, None] < CO) & (voxels[None, :] < n_voxels)
    tl.store(y_ptr + co[:, None] * n_voxels + voxels[None, :], acc, mask=mask)


@triton.jit
def group_norm_kernel(
    x_ptr,
    y_ptr,
    weight_ptr,
    bias_ptr,
    n_groups,
    group_channels,
    spatial,
    eps,
    BLOCK: tl.constexpr,
):
    pid = tl.program_id(0)
    first_channel = (pid % n_groups) * group_channels
    size = group_channels * spatial
    x_ptr += pid.to(tl.int64) * size
    y_ptr += pid.to(tl.int64) * size

    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, size, BLOCK):
        offs = start + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + offs, mask=offs < size, other=0.0)
    mean = tl.sum(total, axis=0) / size

    squares = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, size, BLOCK):
        offs = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + offs, mask=offs < size, other=0.0)
        deviation = tl.where(offs < size, x - mean, 0.0)
        squares += deviation * deviation
    scale = 1.0 / tl.sqrt(tl.sum(squares, axis=0) / size + eps)

    for start in range(0, size, BLOCK):
        offs = start + tl.arange(0, BLOCK)
        mask = offs < size
        channel = first_channel + offs // spatial
        x = tl.load(x_ptr + offs, mask=mask, other=0.0)
        weight = tl.load(weight_ptr + channel, mask=mask, other=0.0)
        bias = tl.load(bias_ptr + channel, mask=mask, other=0.0)
        tl.store(y_ptr + offs, (x - mean) * scale * weight + bias, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, groups: int, bias: bool = False):
        super().__init__()
        self.conv_transpose = nn.ConvTranspose3d(in_channels, out_channels, kernel_size, bias=bias)
        self.group_norm = nn.GroupNorm(num_groups=groups, num_channels=out_channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        n_samples, CI, ID, IH, IW = x.shape
        conv = self.conv_transpose
        CO = conv.out_channels
        KD, KH, KW = conv.kernel_size
        OD, OH, OW = ID + KD - 1, IH + KH - 1, IW + KW - 1
        convolved = torch.empty((n_samples, CO, OD, OH, OW), device=x.device, dtype=x.dtype)
        n_tiles = triton.cdiv(OD * OH * OW, BLOCK_P)
        conv_transpose3d_relu_kernel[(n_samples * n_tiles, triton.cdiv(CO, BLOCK_CO))](
            x,
            conv.weight,
            conv.bias,
            convolved,
            CI,
            CO,
            ID,
            IH,
            IW,
            OD,
            OH,
            OW,
            KD,
            KH,
            KW,
            n_tiles,
            HAS_BIAS=conv.bias is not None,
            BLOCK_CO=BLOCK_CO,
            BLOCK_P=BLOCK_P,
            BLOCK_CI=BLOCK_CI,
            num_warps=CONV_NUM_WARPS,
            num_stages=CONV_NUM_STAGES,
        )

        norm = self.group_norm
        y = torch.empty_like(convolved)
        group_norm_kernel[(n_samples * norm.num_groups,)](
            convolved,
            y,
            norm.weight,
            norm.bias,
            norm.num_groups,
            CO // norm.num_groups,
            OD * OH * OW,
            norm.eps,
            BLOCK=NORM_BLOCK,
            num_warps=NORM_NUM_WARPS,
        )
        return y
