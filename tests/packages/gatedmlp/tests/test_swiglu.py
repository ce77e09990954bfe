import torch
from gatedmlp.ops import swiglu, swiglu_torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def test_swiglu():
    x, gate, up = (torch.randn(rows, 96, device=DEVICE).half() / 4 for rows in (24, 80, 80))
    torch.testing.assert_close(swiglu(x, gate, up), swiglu_torch(x, gate, up), atol=1e-2, rtol=1e-2)
