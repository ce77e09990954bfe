"""The decoding kernel: its reference by single queries, itself in the interpreter, and compiled for sm_90."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from kernelwright.core import Config, Status
from kernelwright.core.space_inference import declared_space
from kernelwright.corpus import find_kernel, find_problem
from kernelwright.evaluators.compilation.cross import compile_for
from kernelwright.evaluators.workers.modules import ProblemModule

from ..conftest import OnGpu

PROGRAM = Path(__file__).with_name("decoding_forms.py")
PROBLEM = find_problem("attention/decoding").read()
KERNEL = find_kernel("attention/decoding", "triton").read()


def test_each_query_sees_the_keys_up_to_its_own_position() -> None:
    sizes = {"batch_size": 1, "heads": 4, "kv_heads": 2, "seq_len_q": 3, "seq_len_k": 7, "dtype": "float32"}
    problem = ProblemModule(Path(PROBLEM.path), sizes, "cpu")
    q, k, v = problem.inputs(0)
    result = problem.model(0)(q, k, v)
    for head in range(4):
        for query in range(3):
            keys, values = (item[0, head // 2, : 5 + query] for item in (k, v))
            expected = torch.softmax(keys @ q[0, head, query] / 128**0.5, 0) @ values
            assert torch.allclose(result[0, head, query], expected, atol=1e-5)


def test_it_is_right_in_the_interpreter(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, str(PROGRAM)], capture_output=True, text=True, timeout=280, check=False, cwd=tmp_path,
        env={**os.environ, "TRITON_INTERPRET": "1"},
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-2000:]
    found = json.loads(run.stdout)
    assert len(found) == 8
    wrong = {
        name: case for name, case in found.items() if not case["same"] or case["error"] > 1.5 * case["torch"] + 1e-6
    }
    assert wrong == {}


@pytest.mark.timeout(300)
def test_it_compiles_for_hopper() -> None:
    cases = [
        (PROBLEM, KERNEL),
        (PROBLEM, KERNEL.bind({"SPLITS": 1, "BLOCK_N": 128, "NUM_STAGES": 2})),
        (PROBLEM.at("drafts"), KERNEL.bind({"SPLITS": 128})),
        # Triton compiles an argument of 1 as a constant.
        (PROBLEM.resized("single", {"batch_size": 1, "heads": 1, "kv_heads": 1}), KERNEL),
    ]
    parts, whole, drafts, single = compile_for("sm_90", cases)
    assert [item.name for item in single.kernels] == ["attend_part", "merge_parts"]
    assert [item.name for item in parts.kernels] == ["attend_part", "merge_parts"]
    assert [item.name for item in whole.kernels] == ["attend_part"], "nothing is to be merged"
    for found in (parts, whole, drafts):
        product = found.product()
        assert product is not None and product.tensor_cores == ("mma bf16",) and product.shared_bytes is not None
        assert product.shared_bytes <= 227 * 1024
        assert all(item.spills == 0 for item in found.kernels)


def test_parts_have_keys() -> None:
    space = declared_space(KERNEL, PROBLEM.resized("short", {"seq_len_k": 300}))
    assert space is not None
    one = {"BLOCK_N": 64, "NUM_WARPS": 4, "NUM_STAGES": 3}
    assert [Config({**one, "SPLITS": splits}) in space for splits in (1, 4, 5, 6)] == [True, True, True, False]


@pytest.mark.gpu
@pytest.mark.parametrize("workload", ["tiny", "one", "drafts"])
def test_it_is_right_on_a_gpu(on_gpu: OnGpu, workload: str) -> None:
    with on_gpu() as evaluator:
        configs = [Config({"SPLITS": splits}) for splits in (1, 3, 64)]
        found = list(evaluator.evaluate(PROBLEM.at(workload), KERNEL, configs))
    assert [evaluation.status for evaluation in found] == [Status.OK] * 3, [item.message for item in found]
