"""What is counted of the reference, and what is known of the device."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from kernelwright.core import DeviceLimits
from kernelwright.evaluators.devices import visible_gpu
from kernelwright.evaluators.profiling.op_counter import count, observe
from torch import nn
from torch.utils.flop_counter import flop_registry


class Products(nn.Module):
    """Three products, the largest in the middle."""

    def forward(self, a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
        small = a[:2] @ b
        large = torch.addmm(bias, a, b)
        return torch.bmm(c, c.transpose(1, 2)).sum() + small.sum() + large


def test_the_largest_product_is_the_problems() -> None:
    inputs = [torch.zeros(16, 8), torch.zeros(8, 32), torch.zeros(32), torch.zeros(3, 4, 5, dtype=torch.float64)]
    found = count(Products(), inputs)
    assert found["product"] == {"m": 16, "n": 32, "k": 8, "batch": 1, "element_bytes": 4, "dtype": "float32"}
    assert found["matrix_flops"] == 2 * (2 * 32 * 8 + 16 * 32 * 8 + 3 * 4 * 4 * 5)
    batched = count(Products(), [torch.zeros(4, 1), torch.zeros(1, 4), torch.zeros(4), inputs[3]])
    assert batched["product"] == {"m": 4, "n": 4, "k": 5, "batch": 3, "element_bytes": 8, "dtype": "float64"}


class Attends(nn.Module):
    """Torch's attention with one of its masks."""

    def __init__(self, **mask: object) -> None:
        super().__init__()
        self._mask = mask

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, **self._mask)


@pytest.mark.parametrize(
    ("mask", "seen"),
    [
        ({}, 8 * 8),
        ({"is_causal": True}, 8 * 9 // 2),
        ({"attn_mask": torch.eye(8, dtype=torch.bool)}, 8),
        ({"attn_mask": torch.full((8, 8), float("-inf")).triu(3)}, 8 * 8 - 15),
        ({"attn_mask": torch.full((8, 8), -1e9).triu(3)}, 8 * 8 - 15),
        ({"attn_mask": torch.randn(8, 8)}, 8 * 8),
    ],
)
def test_a_floor_counts_no_products_that_a_mask_hides(mask: dict[str, object], seen: int) -> None:
    heads = [torch.randn(2, 3, 8, 16) for _ in range(3)]
    assert count(Attends(**mask), heads)["matrix_flops"] == 2 * 3 * seen * 2 * (16 + 16)


DISTANCE = torch.arange(8)[:, None] - torch.arange(8)[None, :]
LOWEST = torch.finfo(torch.float32).min
MASKS = {
    "none": (lambda s: s, 64),
    "causal": (lambda s: s.masked_fill(DISTANCE < 0, float("-inf")), 36),
    "window": (lambda s: s.masked_fill((DISTANCE < 0) | (DISTANCE >= 3), float("-inf")), 21),
    "prefix": (lambda s: s.masked_fill((DISTANCE < 0) & (torch.arange(8) >= 4), float("-inf")), 42),
    "lowest": (lambda s: torch.where(DISTANCE < 0, LOWEST, 9 * torch.tanh(s / 9)), 36),
    "added": (lambda s: s + torch.zeros(8, 8).masked_fill_(DISTANCE != 0, float("-inf")), 8),
    "bias": (lambda s: s - 0.5 * DISTANCE.abs(), 64),
}


@pytest.mark.parametrize("name", MASKS)
def test_a_floor_counts_no_hidden_scores_of_attention_that_is_written_out(name: str) -> None:
    mask, seen = MASKS[name]

    class Written(nn.Module):
        def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            weights = mask(q @ k.transpose(-1, -2) / 4).softmax(-1)
            return (weights.double().float() @ v).transpose(1, 2).reshape(2, 8, 48) @ torch.ones(48, 5)

    counted = count(Written(), [torch.randn(2, 3, 8, 16) for _ in range(3)])
    assert counted["matrix_flops"] == pytest.approx(2 * 3 * seen * 2 * (16 + 16) + 2 * 2 * 8 * 48 * 5)


def test_grouped_queries_are_counted_where_torchs_formula_refuses_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def refusing(query: object, key: object, value: object, *_: object, **__: object) -> int:
        raise AssertionError("sdpa_flop_count: query/key/value shapes are incompatible")

    operator = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    monkeypatch.setitem(flop_registry, operator, refusing)
    q, k, v = torch.randn(2, 6, 8, 16), torch.randn(2, 3, 8, 16), torch.randn(2, 3, 8, 16)
    assert count(Attends(enable_gqa=True), [q, k, v])["matrix_flops"] == 2 * 6 * 8 * 8 * 2 * (16 + 16)


CONVOLUTIONS = [
    # Positions are batch times output sizes; of a stride of two along 9 and 8 with a border there are five each.
    (nn.Conv2d(4, 6, (3, 2), stride=2, padding=1), (2, 4, 9, 8), {"m": 50, "n": 6, "k": 24, "batch": 1, "taps": 6}),
    (nn.Conv1d(4, 6, 3, dilation=2), (2, 4, 9), {"m": 10, "n": 6, "k": 12, "batch": 1, "taps": 3}),
    (nn.Conv2d(4, 6, 1), (2, 4, 3, 3), {"m": 18, "n": 6, "k": 4, "batch": 1, "taps": 1}),
    (nn.Conv2d(16, 64, 3, padding=1, groups=2), (1, 16, 4, 4), {"m": 16, "n": 32, "k": 72, "batch": 2, "taps": 9}),
    (nn.ConvTranspose3d(4, 6, 3), (2, 4, 3, 4, 5), {"m": 420, "n": 6, "k": 108, "batch": 1, "taps": 27}),
    # Two and one of the taps reach an output.
    (nn.ConvTranspose2d(4, 6, (3, 2), 2), (1, 4, 3, 3), {"m": 42, "n": 6, "k": 8, "batch": 1, "taps": 2}),
    (nn.ConvTranspose2d(4, 6, 3, groups=2), (1, 4, 2, 2), {"m": 16, "n": 3, "k": 18, "batch": 2, "taps": 9}),
    # Nothing that many results share: a tile of a product would be empty but for a row.
    (nn.Conv2d(4, 8, 3, groups=4), (1, 4, 5, 5), None),
    (nn.Conv2d(1, 8, 3), (1, 1, 5, 5), None),
    (nn.ConvTranspose2d(4, 4, 3, groups=4), (1, 4, 5, 5), None),
    (nn.Conv2d(4, 1, 3), (1, 4, 5, 5), None),
]


@pytest.mark.parametrize(("module", "shape", "product"), CONVOLUTIONS, ids=lambda value: str(value).split("(")[0])
def test_a_convolution_is_a_product(module: nn.Module, shape: tuple[int, ...], product: dict[str, int] | None) -> None:
    found = count(module, [torch.zeros(shape)])["product"]
    assert found == (product and {**product, "element_bytes": 4, "dtype": "float32"})


def test_of_a_convolution_and_a_product_the_larger_one_is_the_problems() -> None:
    layers = [nn.Conv2d(4, 8, 3), nn.Flatten(), nn.Linear(72, 16)]
    found = count(nn.Sequential(*layers).bfloat16(), [torch.zeros(2, 4, 5, 5, dtype=torch.bfloat16)])["product"]
    assert found == {"m": 18, "n": 8, "k": 36, "batch": 1, "taps": 9, "element_bytes": 2, "dtype": "bfloat16"}
    layers[2] = nn.Linear(72, 64)
    assert count(nn.Sequential(*layers[1:]), [torch.zeros(2, 8, 3, 3)])["product"]["n"] == 64
    assert count(nn.Sequential(*layers).float(), [torch.zeros(2, 4, 5, 5)])["product"]["k"] == 72


class Product(nn.Module):
    """One product of what `prepare` makes of the operands."""

    def __init__(self, prepare: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.prepare = prepare

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return self.prepare(a) @ self.prepare(b).t()


@pytest.mark.parametrize(
    ("dtype", "prepare", "counted"),
    [
        (torch.float32, lambda x: x, "float32"),
        (torch.bfloat16, lambda x: x, "bfloat16"),
        (torch.float8_e4m3fn, lambda x: x.to(torch.float32), "float8_e4m3fn"),
        (torch.float8_e5m2, lambda x: x.to(torch.bfloat16).float(), "float8_e5m2"),
        (torch.float16, lambda x: x.float() * 3, "float32"),
        (torch.float16, lambda x: x.float().mul_(3), "float32"),
        (torch.float32, lambda x: x.half(), "float16"),
    ],
)
def test_a_product_is_of_its_operands_dtype(
    dtype: torch.dtype, prepare: Callable[[torch.Tensor], torch.Tensor], counted: str
) -> None:
    """What the reference only widened is as narrow as it was; what it computed from that is not."""
    product = count(Product(prepare), [torch.ones(16, 32).to(dtype), torch.ones(8, 32).to(dtype)])["product"]
    assert product == {
        "m": 16, "n": 8, "k": 32, "batch": 1, "dtype": counted, "element_bytes": getattr(torch, counted).itemsize,
    }  # fmt: skip


def test_a_widened_and_a_wide_operand_make_a_wide_product() -> None:
    class Mixed(nn.Module):
        def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            return a.float() @ b

    product = count(Mixed(), [torch.ones(4, 4).half(), torch.ones(4, 4)])["product"]
    assert (product["dtype"], product["element_bytes"]) == ("float32", 4)


def test_a_scaled_product_is_one_of_fp8() -> None:
    class Scaled(nn.Module):
        def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            scalar = torch.ones(())
            return torch._scaled_mm(a, b.t(), scale_a=scalar, scale_b=scalar, out_dtype=torch.bfloat16)

    product = count(Scaled(), [torch.ones(n, 32).to(torch.float8_e4m3fn) for n in (16, 48)])["product"]
    assert (product["m"], product["n"], product["k"], product["dtype"]) == (16, 48, 32, "float8_e4m3fn")


def test_limits_are_what_the_driver_says() -> None:
    properties = {
        "name": "A GPU",
        "major": 8,
        "minor": 6,
        "multi_processor_count": 82,
        "shared_memory_per_block": 49152,
        "shared_memory_per_block_optin": 101376,
        "regs_per_multiprocessor": 65536,
        "max_threads_per_multi_processor": 1536,
    }
    expected = DeviceLimits(
        architecture="sm_86", multiprocessors=82, shared_bytes=101376, registers=65536, threads=1536
    )
    assert DeviceLimits.of_properties(properties) == expected
    del properties["shared_memory_per_block_optin"]
    assert DeviceLimits.of_properties(properties).shared_bytes == 49152


@pytest.mark.parametrize(
    ("visible", "number", "name"),
    [(None, 1, "1"), ("", 0, "0"), ("3,5", 1, "5"), ("GPU-a, GPU-b", 0, "GPU-a"), ("3", 2, "2")],
)
def test_a_gpu_is_counted_among_those_that_are_visible(
    monkeypatch: pytest.MonkeyPatch, visible: str | None, number: int, name: str
) -> None:
    if visible is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert visible_gpu(number) == {"CUDA_VISIBLE_DEVICES": name}


def test_what_an_operator_of_its_own_calls_is_counted_in_its_place() -> None:
    @torch.library.custom_op("kernelwright_tests::hidden", mutates_args=())
    def hidden(x: torch.Tensor) -> torch.Tensor:
        x.sum().tolist()
        return torch.softmax(torch.mm(x.t().reshape(-1).view(4, 4), x), 1)

    result, seen = observe(lambda: hidden(torch.ones(4, 4)))
    assert torch.equal(result, torch.full((4, 4), 0.25))
    assert [row["name"] for row in seen if row["kind"] == "compute"] == ["sum", "mm", "_softmax"]
    assert {row["kind"] for row in seen} == {"compute", "free", "layout", "leaving"}
    assert sum(row["kind"] == "leaving" for row in seen) == 1
