"""Transposed 2-d convolution as an implicit GEMM in gather form (output channels x output pixels),
then one program per (sample, channel) plane for max pooling, hardtanh, mean and tanh."""

import torch
import triton
import triton.language as tl
from torch import nn

BLOCK_CO = 64
BLOCK_P = 64
BLOCK_CI = 32
CONV_NUM_WARPS = 4
CONV_NUM_STAGES = 2
POOL_BLOCK = 512
POOL_NUM_WARPS = 4

SEARCH_SPACE = {
    "BLOCK_CO": [32, 64, 128],
    "BLOCK_P": [32, 64, 128],
    "BLOCK_CI": [16, 32, 64],
    "CONV_NUM_WARPS": [4, 8],
    "CONV_NUM_STAGES": [2, 3, 4],
    "POOL_BLOCK": [128, 256, 512, 1024],
    "POOL_NUM_WARPS": [2, 4, 8],
}
CONSTRAINTS = [
    "BLOCK_CO * BLOCK_P <= CONV_NUM_WARPS * 32 * 64",
    "(BLOCK_CO + BLOCK_P) * BLOCK_CI * 4 * CONV_NUM_STAGES <= 227 * 1024",
]


@triton.jit
def conv_transpose2d_kernel(
    x_ptr,
    w_ptr,
    bias_ptr,
    y_ptr,
    CI,
    CO,
    IH,
    IW,
    OH,
    OW,
    KH,
    KW,
    stride_h,
    stride_w,
    pad_h,
    pad_w,
    n_tiles,
    BLOCK_CO: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_CI: tl.constexpr,
):
    sample = (tl.program_id(0) // n_tiles).to(tl.int64)
    tile = tl.program_id(0) % n_tiles
    x_ptr += sample * CI * IH * IW
    y_ptr += sample * CO * OH * OW
    pixels = tile * BLOCK_P + tl.arange(0, BLOCK_P)
    oh = pixels // OW
    ow = pixels % OW
    co = tl.program_id(1) * BLOCK_CO + tl.arange(0, BLOCK_CO)
    ci = tl.arange(0, BLOCK_CI)

    acc = tl.zeros((BLOCK_CO, BLOCK_P), dtype=tl.float32)
    for kh in range(KH):
        for kw in range(KW):
            # The input pixel that reaches (oh, ow) through tap (kh, kw), if there is one.
            h = oh + pad_h - kh
            w = ow + pad_w - kw
            ih = h // stride_h
            iw = w // stride_w
            hit = (h >= 0) & (ih < IH) & (ih * stride_h == h) & (w >= 0) & (iw < IW) & (iw * stride_w == w)
            hit = hit & (pixels < OH * OW)
            for start in range(0, CI, BLOCK_CI):
                c = start + ci
                w_tile = tl.load(
                    w_ptr + ((c[None, :] * CO + co[:, None]) * KH + kh) * KW + kw,
                    mask=(co[:, None] < CO) & (c[None, :] < CI),
                    other=0.0,
                )
                x_tile = tl.load(
                    x_ptr + (c[:, None] * IH + ih[None, :]) * IW + iw[None, :],
                    mask=(c[:, None] < CI) & hit[None, :],
                    other=0.0,
                )
                acc = tl.dot(w_tile, x_tile, acc, input_precision="ieee")

    bias = tl.load(bias_ptr + co, mask=co < CO, other=0.0)
    mask = (co[:, None] < CO) & (pixels[None, :] < OH * OW)
    tl.store(y_ptr + co[:, None] * (OH * OW) + pixels[None, :], acc + bias[:, None], mask=mask)


@triton.jit
def pool_mean_tanh_kernel(
    x_ptr,
    y_ptr,
    H,
    W,
    PH,
    PW,
    pool_size,
    pool_stride,
    low,
    high,
    BLOCK: tl.constexpr,
):
    plane = tl.program_id(0)
    x_ptr += plane.to(tl.int64) * H * W
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, PH * PW, BLOCK):
        windows = start + tl.arange(0, BLOCK)
        mask = windows < PH * PW
        corner = (windows // PW) * pool_stride * W + (windows % PW) * pool_stride
        largest = tl.full((BLOCK,), -float("inf"), dtype=tl.float32)
        for i in range(pool_size):
            for j in range(pool_size):
                x = tl.load(x_ptr + corner + i * W + j, mask=mask, other=-float("inf"))
                largest = tl.maximum(largest, x, propagate_nan=tl.PropagateNan.ALL)
        clamped = tl.clamp(largest, low, high, propagate_nan=tl.PropagateNan.ALL)
        acc += tl.where(mask, clamped, 0.0)
    mean = tl.sum(acc, axis=0) / (PH * PW)
    # tanh through the sigmoid, because the core language has no tanh.
    tl.store(y_ptr + plane, 2.0 * tl.sigmoid(2.0 * mean) - 1.0)


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
        self.conv_transpose = nn.ConvTranspose2d(in_channels, out_channels, kernel_size, stride=stride, padding=padding)
        self.maxpool = nn.MaxPool2d(maxpool_kernel_size, stride=maxpool_stride)
        self.hardtanh = nn.Hardtanh(hardtanh_min, hardtanh_max)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        n_samples, CI, IH, IW = x.shape
        conv = self.conv_transpose
        CO = conv.out_channels
        KH, KW = conv.kernel_size
        stride_h, stride_w = conv.stride
        pad_h, pad_w = conv.padding
        OH = (IH - 1) * stride_h - 2 * pad_h + KH
        OW = (IW - 1) * stride_w - 2 * pad_w + KW
        convolved = torch.empty((n_samples, CO, OH, OW), device=x.device, dtype=x.dtype)
        n_tiles = triton.cdiv(OH * OW, BLOCK_P)
        conv_transpose2d_kernel[(n_samples * n_tiles, triton.cdiv(CO, BLOCK_CO))](
            x,
            conv.weight,
            conv.bias,
            convolved,
            CI,
            CO,
            IH,
            IW,
            OH,
            OW,
            KH,
            KW,
            stride_h,
            stride_w,
            pad_h,
            pad_w,
            n_tiles,
            BLOCK_CO=BLOCK_CO,
            BLOCK_P=BLOCK_P,
            BLOCK_CI=BLOCK_CI,
            num_warps=CONV_NUM_WARPS,
            num_stages=CONV_NUM_STAGES,
        )

        pool_size = self.maxpool.kernel_size
        pool_stride = self.maxpool.stride
        y = torch.empty((n_samples, CO, 1, 1), device=x.device, dtype=x.dtype)
        pool_mean_tanh_kernel[(n_samples * CO,)](
            convolved,
            y,
            OH,
            OW,
            (OH - pool_size) // pool_stride + 1,
            (OW - pool_size) // pool_stride + 1,
            pool_size,
            pool_stride,
            self.hardtanh.min_val,
            self.hardtanh.max_val,
            BLOCK=POOL_BLOCK,
            num_warps=POOL_NUM_WARPS,
        )
        return y
