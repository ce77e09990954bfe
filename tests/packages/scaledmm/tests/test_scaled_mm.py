import torch
from scaledmm.api import scaled_mm, scaled_mm_torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def test_scaled_mm():
    a, b = (torch.randint(-8, 8, (rows, 256), dtype=torch.int8, device=DEVICE) for rows in (20, 128))
    scales = torch.rand(20, 2, device=DEVICE) / 16, torch.rand(1, 2, device=DEVICE) / 16
    torch.testing.assert_close(scaled_mm(a, b, *scales), scaled_mm_torch(a, b, *scales), atol=1e-2, rtol=1e-2)
