"""References and inputs for matrix products of public packages: scaled, batch-invariant, of LoRA."""

import torch

HALF = torch.float16


def product(a, b):
    return (a.float() @ b.float()).to(a.dtype)


def product_inputs(seed, m=4096, n=4096, k=4096):
    return [torch.randn(m, k, dtype=HALF), torch.randn(k, n, dtype=HALF)]


def batched_product_inputs(seed, batch=32, m=512, n=512, k=512):
    return [torch.randn(batch, m, k, dtype=HALF), torch.randn(batch, k, n, dtype=HALF)]


def scaled_int8_product(a, b, scale_a, scale_b, dtype):
    return (a.double() @ b.double() * scale_a * scale_b.view(1, -1)).to(dtype)


def scaled_int8_product_inputs(seed, m=4096, n=4096, k=4096):
    a, b = (torch.randint(-128, 128, shape, dtype=torch.int8) for shape in ((m, k), (k, n)))
    return [a, b, torch.rand(m, 1), torch.rand(n, 1), HALF]


def block_scaled_product(a, b, scale_a, scale_b, block, dtype):
    rows, columns = block
    a = a.float() * scale_a.repeat_interleave(columns, -1)
    return (a @ (b.float() * scale_b.repeat_interleave(rows, 0).repeat_interleave(columns, 1)).T).to(dtype)


def block_scaled_product_inputs(seed, m=4096, n=4096, k=4096, block=128):
    a, b = torch.randn(m, k).to(torch.float8_e4m3fn), torch.randn(n, k).to(torch.float8_e4m3fn)
    return [a, b, torch.rand(m, k // block), torch.rand(n // block, k // block), [block, block], HALF]


def scaled_int8_linear(a, b, scale_a, scale_b):
    return (a.double() @ b.double().T * scale_a * scale_b.view(1, -1)).to(HALF)


def scaled_int8_linear_inputs(seed, m=4096, n=4096, k=4096):
    a, b = (torch.randint(-128, 128, shape, dtype=torch.int8) for shape in ((m, k), (n, k)))
    return [a, b, torch.rand(m, 1), torch.rand(n, 1)]
