import pytest
import torch
from rownorm import rms_norm
from rownorm.ops.reference import rms_norm_torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.mark.parametrize("shape", [(3, 100), (2, 2, 512)])
@pytest.mark.parametrize("weighted", [True, False])
def test_rms_norm(shape, weighted):
    x = torch.randn(shape, dtype=torch.float16, device=DEVICE)
    weight = torch.randn(shape[-1], dtype=torch.float16, device=DEVICE) if weighted else None
    torch.testing.assert_close(rms_norm(x, weight), rms_norm_torch(x, weight), atol=1e-2, rtol=1e-2)
