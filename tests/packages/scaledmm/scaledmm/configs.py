"""Configs of the kernels."""

import itertools

import triton

GROUP = 128
"""Elements of K, and of N, that share a scale."""


def product_configs():
    configs = []
    for block_m, block_n, stages in itertools.product([16, 64], [64, 128], [3, 4]):
        if block_m * block_n <= 8192:
            configs.append(triton.Config({"BLOCK_M": block_m, "BLOCK_N": block_n}, num_warps=4, num_stages=stages))
    return configs
