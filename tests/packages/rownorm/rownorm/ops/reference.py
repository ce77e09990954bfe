"""What the operators compute, in torch."""

import torch


def rms_norm_torch(x, weight=None, eps=1e-6):
    wide = x.float()
    y = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    return (y if weight is None else y * weight.float()).to(x.dtype)
