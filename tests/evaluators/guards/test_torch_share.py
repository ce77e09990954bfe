"""What torch does for a candidate: seen in every way to call it, and compared with the reference."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from kernelwright.core import Rejection
from kernelwright.evaluators.guards.torch_share import Operator, operators_of, torch_violation
from kernelwright.evaluators.profiling import op_counter
from kernelwright.evaluators.settings import AllowTorch
from torch import nn
from torch.nn import functional as F  # noqa: N812  (as everybody calls it)

Call = Callable[..., Any]
N = 128
X, Y, ROW = torch.randn(N, N), torch.randn(N, N), torch.randn(N)
IMAGES, FILTERS = torch.randn(2, 8, 16, 16), torch.randn(8, 8, 3, 3)
PARTS = torch.randn(4, N)
RESULTS, PLACES, ORDER = torch.randn(1 << 16), torch.randint(1 << 16, (N, N)), torch.randperm(N)


class Reference(nn.Module):
    def __init__(self, call: Call) -> None:
        super().__init__()
        self.call = call

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.call(*inputs)


def seen(call: Callable[[], object]) -> list[Operator]:
    return [Operator(**row) for row in operators_of(call)]


def reference_client(candidate: Call, reference: Call, allow: AllowTorch = AllowTorch.GLUE) -> Rejection | None:
    """Of the candidate on the same inputs, as the evaluator asks."""
    with torch.no_grad():
        theirs = op_counter.count(Reference(reference), [X, Y])["details"]
        return torch_violation(seen(lambda: candidate(X, Y)), [Operator(**their) for their in theirs], allow)


def kernel(*like: torch.Tensor) -> torch.Tensor:
    """Stands for a kernel: torch sees only that its output is allocated."""
    return torch.empty_like(like[0])


def in_pool(call: Callable[[], object]) -> Call:
    def run(*_: torch.Tensor) -> object:
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(call).result()

    return run


def in_thread(call: Callable[[], object]) -> Call:
    def run(*_: torch.Tensor) -> None:
        thread = threading.Thread(target=call)
        thread.start()
        thread.join()

    return run


def by_rank_one(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    total = torch.zeros(N, N)
    for k in range(N):
        total.addcmul_(x[:, k : k + 1], y[k : k + 1])
    return total


def softmax_by_hand(x: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
    powers = (x - x.amax(1, keepdim=True)).exp()
    return powers / powers.sum(1, keepdim=True)


def conv(*_: torch.Tensor) -> torch.Tensor:
    return F.conv2d(IMAGES, FILTERS)


def conv_by_columns(*_: torch.Tensor) -> torch.Tensor:
    return FILTERS.view(8, -1) @ F.unfold(IMAGES, 3)


def activations(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return F.hardtanh(F.gelu(torch.tanh(F.silu(x @ y + ROW))))


GIVE_BACKS: dict[str, tuple[Call, Call]] = {
    "matmul": (torch.mm, torch.mm),
    "matmul spelled otherwise": (lambda x, y: torch.einsum("ik,kj->ij", x, y), torch.mm),
    "matmul in batches": (lambda x, y: torch.bmm(x.view(4, -1, N), y.expand(4, N, N)), torch.mm),
    "matmul row by row": (lambda x, y: [row @ y for row in x], torch.mm),
    "matmul by outer products": (by_rank_one, torch.mm),
    "matmul by broadcasting": (lambda x, y: (x[:, :, None] * y[None]).sum(1), torch.mm),
    "matmul in a pool": (in_pool(lambda: X @ Y), torch.mm),
    "matmul in a thread": (in_thread(lambda: X @ Y), torch.mm),
    "matmul in numpy": (lambda x, y: torch.from_numpy(x.numpy() @ y.numpy()), torch.mm),
    "matmul through dlpack": (lambda x, y: numpy.from_dlpack(x) @ numpy.asarray(y), torch.mm),
    "matmul as distances": (lambda x, y: torch.cdist(x, y), torch.mm),
    "half of a matmul": (lambda x, y: (kernel(x), x[: N // 2] @ y), torch.mm),
    "softmax": (lambda x, _: torch.softmax(x, 1), lambda x, _: torch.softmax(x, 1)),
    "softmax by hand": (softmax_by_hand, lambda x, _: torch.softmax(x, 1)),
    "mean of a norm": (lambda x, _: x.mean(1), lambda x, _: F.layer_norm(x, (N,))),
    "convolution": (conv, conv),
    "convolution as matmul": (conv_by_columns, conv),
    "attention": (
        lambda x, y: F.scaled_dot_product_attention(x[None, None], y[None, None], y[None, None]),
        lambda x, y: torch.softmax(x @ y.t(), 1) @ y,
    ),
    "sum": (lambda x, _: x.sum(0), lambda x, _: x.sum(0)),
    "relu": (lambda x, _: torch.relu(x), lambda x, _: torch.relu(x)),
    "relu in place": (lambda x, _: x.clone().clamp_(min=0), lambda x, _: torch.relu(x)),
    "transpose": (lambda x, _: x.t().contiguous(), lambda x, _: x.t().contiguous()),
    "fused chain": (activations, activations),
    "results by index": (lambda x, _: RESULTS[PLACES], lambda x, _: F.gelu(x)),
    "results by take": (lambda x, _: RESULTS.take(PLACES), lambda x, _: F.gelu(x)),
    "results by gather": (lambda x, _: RESULTS.expand(N, -1).gather(1, PLACES), lambda x, _: F.gelu(x)),
    "results by embedding": (lambda x, _: F.embedding(PLACES, RESULTS[:, None]), lambda x, _: F.gelu(x)),
    "rows picked": (lambda x, _: x[ORDER], lambda x, _: x.index_select(0, ORDER)),
}

HONEST: dict[str, tuple[Call, Call]] = {
    "a kernel alone": (kernel, torch.mm),
    "packed weights": (lambda x, y: kernel(x.contiguous(), y.t().contiguous()), torch.mm),
    "padding and casts": (lambda x, y: kernel(x, F.pad(y, (0, 8)).half()), torch.mm),
    "a scale on the way": (lambda x, y: kernel(x, ROW * 2.0, y), torch.mm),
    "axes exchanged in place": (lambda x, y: kernel(x, torch.empty_like(y).t_().unsqueeze_(0)), torch.mm),
    "zeroed output": (lambda x, y: torch.zeros_like(x), torch.mm),
    "sum of partial sums": (lambda x, y: PARTS.sum(0), lambda x, _: x.sum(0)),
    "mean of partial sums": (lambda x, y: kernel(x)[0].sum() / x.numel(), lambda x, y: ((x - y) ** 2).mean()),
    "epilogue left to torch": (lambda x, y: torch.relu(kernel(x) + ROW), lambda x, y: torch.relu(x @ y + ROW)),
    "epilogue of a thin product": (
        lambda x, y: torch.relu(kernel(x)),
        lambda x, y: torch.relu(x[:, : N // 2] @ y[: N // 2]),
    ),
    "chain left to torch": (lambda x, y: F.hardtanh(F.gelu(torch.tanh(F.silu(kernel(x) + ROW)))), activations),
    "a flag read": (lambda x, y: (kernel(x), x[0].tolist(), float(x[0, 0])), torch.mm),
    "a few rows picked": (lambda x, y: (kernel(x), y[ORDER[:8]]), torch.mm),
    "a kernel of picked rows": (lambda x, y: kernel(x[ORDER]), lambda x, y: x[ORDER] @ y),
    "a pool of kernels": (in_pool(lambda: kernel(X)), torch.mm),
}


@pytest.mark.parametrize("name", GIVE_BACKS)
def test_work_that_is_given_back_is_seen(name: str) -> None:
    candidate, reference = GIVE_BACKS[name]
    found = reference_client(candidate, reference)
    assert found is not None and found.rule == "torch-operator"
    assert reference_client(candidate, reference, AllowTorch.ALL) is None


@pytest.mark.parametrize("name", HONEST)
def test_glue_is_none_of_it(name: str) -> None:
    assert reference_client(*HONEST[name]) is None


def test_a_rejection_names_the_operator_and_what_to_do() -> None:
    found = reference_client(torch.mm, torch.mm)
    assert found is not None and found.where == "mm, seen in one call"
    assert "products are where the reference's time goes (100% by estimate)" in found.why
    assert "--allow-torch all" in found.why


def test_none_leaves_allocation_and_views() -> None:
    assert reference_client(lambda x, y: kernel(x).view(-1)[1:], torch.mm, AllowTorch.NONE) is None
    for call in (lambda x, y: x.t().contiguous(), lambda x, y: kernel(x) + 1, lambda x, y: x.numpy()):
        assert reference_client(call, torch.mm, AllowTorch.NONE) is not None


def test_counts_are_totals_by_name() -> None:
    operators = {operator.name: operator for operator in seen(lambda: (X @ Y, X @ Y[:, :64], X * X, X.t()))}
    assert set(operators) == {"mm", "mul"}, "views are no work"
    assert operators["mm"].calls == 2 and operators["mm"].matrix_flops == 2 * N * N * (N + 64)
    assert operators["mul"].bytes == 2 * N * N * 4, "read once, written once"
    assert operators["mm"].largest_bytes == 3 * N * N * 4


def test_nothing_stays_replaced() -> None:
    from concurrent.futures import thread

    before = thread._WorkItem.run, threading.Thread._bootstrap_inner  # type: ignore[attr-defined]
    with pytest.raises(ZeroDivisionError):
        operators_of(lambda: 1 // 0)
    assert before == (thread._WorkItem.run, threading.Thread._bootstrap_inner)  # type: ignore[attr-defined]
    assert torch._C._len_torch_dispatch_stack() == torch._C._len_torch_function_stack() == 0


def test_the_corpus_breaks_no_rule_while_it_runs() -> None:
    names = [
        "tilelang_cpu/level2/2_12",
        "tilelang_cpu/level1/1_94",
        "tilelang_cpu/matmul-threads/after",
        "triton/level1/1_94",
        "triton/level2/2_10",
        "triton/sum-two-stage/after",
        "triton/transpose-coalesced/after",
    ]
    script = Path(__file__).with_name("run_corpus.py")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, str(script), *names]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert set(found) == set(names)
    for operator in found.values():
        assert (operator["watch"], operator["torch"], operator["proof"], operator["foreign"]) == ([], "", "", [])
        assert operator["launches"] and operator["give-back"].startswith("torch-operator")
    assert found["tilelang_cpu/level2/2_12"]["operators"] == ["clone"], "its weight is packed on each call"
    assert found["triton/level2/2_10"]["operators"] == [], "copies of the interpreter's are none of the kernel's"
