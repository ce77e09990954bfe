"""The operators, in Triton's interpreter: right, and with the config of a tuned file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from kernelwright.core import Config
from kernelwright.tuners.gemm.device import H200_LIMITS, Device
from kernelwright.tuners.gemm.shapes import Shape
from kernelwright.tuners.gemm.stores import store_of
from kernelwright.tuners.gemm.stores.store import ConfigEntry, ConfigKey

PROGRAM = """
import json, sys, warnings
import torch
from kernelwright.evaluators.languages.triton_interpreter import fix_interpreter
from kernelwright.ops import gemm as ops
from kernelwright.ops.gemm import a8w8_blockscale, gemm, moe
from kernelwright.tuners.gemm.shapes import Shape

fix_interpreter()  # it rounds to fp8 coarsely
torch.manual_seed(0)
found, said = {}, []
warnings.showwarning = lambda message, *_: said.append(str(message))
a, b = torch.randn(33, 64).half(), torch.randn(48, 64).half().t()
found["tuned"] = float((gemm(a, b) - a @ b).abs().max())
found["config"] = dict(ops._config("gemm", "triton", Shape(m=33, n=48, k=64), "float16", None))
said.clear()
a, b = torch.randn(16, 24).half(), torch.randn(24, 40).half()
found["analytic"] = float((gemm(a, b) - a @ b).abs().max())
gemm(a, b)
found["said"] = len([text for text in said if "analytic choice" in text])
a8, b8 = torch.randn(8, 256).to(torch.float8_e4m3fn), torch.randn(130, 256).to(torch.float8_e4m3fn)
scaled, scales = torch.rand(8, 2), torch.rand(2, 2)
wide = scales.repeat_interleave(128, 0).repeat_interleave(128, 1)[:130]
expected = (a8.float() * scaled.repeat_interleave(128, 1)) @ (b8.float() * wide).t()
result = a8w8_blockscale(a8, b8, scaled, scales, "float16")
found["scaled"] = float(((result - expected).abs() / expected.abs().max()).max())
found["dtype"] = str(result.dtype)
x, w1, w2 = torch.randn(6, 48).half(), torch.randn(4, 64, 48).half() / 7, torch.randn(4, 48, 32).half() / 6
weights, ids = torch.randn(6, 4).softmax(-1).topk(2)
up = torch.einsum("ehk,mk->meh", w1.float(), x.float()).half().float()
each = torch.einsum("ekh,meh->mek", w2.float(), torch.nn.functional.silu(up[..., :32]) * up[..., 32:])
expected = (each[torch.arange(6)[:, None], ids] * weights[..., None]).sum(1)
found["experts"] = float((moe(x, w1, w2, weights, ids.int()) - expected).abs().max())
x16 = torch.randn(6, 200).bfloat16()
v1, v2 = torch.randn(4, 96, 200).to(torch.float8_e4m3fn), torch.randn(4, 200, 48).to(torch.float8_e4m3fn)
s1, s2 = torch.rand(4, 1, 2) / 14, torch.rand(4, 2, 1) / 7
wide = lambda w, s: w.double() * s.repeat_interleave(128, 1).repeat_interleave(128, 2)[:, : w.shape[1], : w.shape[2]]
up = torch.einsum("ehk,mk->meh", wide(v1, s1), x16.double())
each = torch.einsum("ekh,meh->mek", wide(v2, s2), torch.nn.functional.silu(up[..., :48]) * up[..., 48:])
expected = (each[torch.arange(6)[:, None], ids] * weights[..., None]).sum(1)
result = moe(x16, v1, v2, weights, ids.int(), s1, s2)
found["fp8 experts"] = float((result - expected).square().mean().sqrt() / expected.square().mean().sqrt())
try:
    moe(x16, v1, v2, weights, ids.int(), s1)
except ValueError as error:
    found["no scale"] = str(error)
try:
    moe(x, w1, w1, weights, ids.int())
except ValueError as error:
    found["refused"] = str(error)
try:
    gemm(a, a)
except ValueError as error:
    found["error"] = str(error)
print(json.dumps(found))
"""


def test_operators_take_tuned_configs_and_are_right(tmp_path: Path) -> None:
    config = Config(
        {
            **{"BLOCK_SIZE_M": 16, "BLOCK_SIZE_N": 32, "BLOCK_SIZE_K": 32, "GROUP_SIZE_M": 2},
            **{"SPLIT_K": 1, "NUM_WARPS": 4, "NUM_STAGES": 2, "VARIANT": "tma"},
        }
    )
    about = ConfigKey("gemm", "float16", Device("cpu", H200_LIMITS))
    store_of("kernelwright").save(tmp_path, about, [ConfigEntry(Shape(48, 64, 64), config)], {})
    environment = {**os.environ, "KERNELWRIGHT_GEMM_CONFIGS": str(tmp_path), "TRITON_INTERPRET": "1"}
    run = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=environment, check=False)
    assert run.returncode == 0, run.stderr[-2000:]
    found = json.loads(run.stdout)
    assert found["config"] == dict(config)
    assert found["tuned"] < 0.04 and found["analytic"] < 0.04 and found["scaled"] < 1e-3
    assert found["experts"] < 0.01
    # What enters a product is rounded to fp8.
    assert 0.02 < found["fp8 experts"] < 0.06
    assert "scales of shapes [(4, 1, 2)]: float8_e4m3fn weights need [(4, 1, 2), (4, 2, 1)]" in found["no scale"]
    assert "no experts of shapes (6, 48), (4, 64, 48), (4, 64, 48)" in found["refused"]
    assert found["dtype"] == "torch.float16"
    assert found["said"] == 1
    assert "no product of shapes (16, 24) and (16, 24)" in found["error"]
