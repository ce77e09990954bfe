"""Compares the operator with its reference, by the rules under which its kernels were measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .dispatch import TableRow
from .modules import changed_settings, exact_products
from .operators import DeployedOperator

SEEDS = (0, 1, 2)


@dataclass(frozen=True)
class SizeCheck:
    """A comparison at one set of sizes."""

    kernel: str
    sizes: str
    error: float
    """Largest absolute error."""
    allowed: bool
    """Whether all errors are within the tolerance of their dtype."""
    by_kernel: bool
    """Whether the kernel served the calls, and not the reference."""
    settings: str = ""
    """Settings of torch that are not defaults and change the reference's results. TF32 was off in any case."""

    @property
    def passed(self) -> bool:
        """Whether the kernel served, within the tolerance."""
        return self.allowed and self.by_kernel

    def __str__(self) -> str:
        verdict = "ok" if self.passed else "not served by the kernel" if self.allowed else "WRONG"
        settings = f", with {self.settings}" if self.settings else ""
        return f"{self.kernel} at {self.sizes}: {verdict}, largest error {self.error:.2e}{settings}"


def here(row: TableRow) -> bool:
    """Return whether the row's device is on this machine."""
    return row.device == "cpu" or torch.cuda.is_available()


def sizes_of(row: TableRow) -> list[dict[str, Any]]:
    """Return the sizes at which a row is checked: those measured, and of its range the ends and odd values."""
    found = [dict(row.sizes)]
    if row.free is not None:
        name, low, high = row.free
        middle = min(high, (low + high) // 2 | 1)
        found += [{**row.sizes, name: value} for value in (low, middle, min(high, low + 1), high)]
    return [sizes for place, sizes in enumerate(found) if sizes not in found[:place]]


def arguments_at(operator: DeployedOperator, row: TableRow, sizes: dict[str, Any], seed: int) -> list[Any]:
    """Return inputs and weights, drawn as the reference's file draws them, on the row's device."""
    device = torch.device(row.device)
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        model = operator.modules.model(row.sizes, device)  # other weights for each seed: a kernel must not keep them
        with torch.device(device):
            drawn = operator.modules.problem(sizes).get_inputs()
    inputs = [item.to(device) if isinstance(item, torch.Tensor) else item for item in drawn]
    known = {**dict(model.named_parameters(remove_duplicate=False)), **dict(model.named_buffers())}
    return [*inputs, *(known[name].detach() for name in operator.weights)]


def compare(operator: DeployedOperator, call: Any) -> list[SizeCheck]:
    """Compare `call` with the reference at the sizes of every row whose device is here."""
    rows = [row for row in operator.dispatch.rows if here(row)]
    return [_compared(operator, call, row, sizes) for row in rows for sizes in sizes_of(row)]


def _compared(operator: DeployedOperator, call: Any, row: TableRow, sizes: dict[str, Any]) -> SizeCheck:
    worst, allowed, missed = 0.0, True, sum(operator.dispatch.counted.values())
    settings: dict[str, Any] = {}
    for seed in SEEDS:
        arguments = arguments_at(operator, row, sizes, seed)
        count = len(arguments) - len(operator.weights)
        reference = operator.modules.reference(row.sizes, row.device)
        with torch.no_grad(), exact_products():
            settings = changed_settings()
            expected = _listed(reference(arguments[:count], arguments[count:]))
            actual = _listed(call(*arguments))
        for found, other in zip(actual, expected, strict=True):
            error, within = difference(operator, found, other)
            allowed = allowed and within
            worst = max(worst, error)
    served = sum(operator.dispatch.counted.values()) == missed
    text = ", ".join(f"{name}={value}" for name, value in sizes.items()) or "the reference's sizes"
    changed = ", ".join(f"{name}={value}" for name, value in settings.items() if not name.endswith("allow_tf32"))
    return SizeCheck(row.kernel, text, worst, allowed, served, changed)


def difference(operator: DeployedOperator, actual: torch.Tensor, expected: torch.Tensor) -> tuple[float, bool]:
    """Return the largest absolute error, and whether shape, dtype and enough of the elements are as expected."""
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        return float("inf"), False
    allowed = operator.table["tolerances"].get(str(expected.dtype).removeprefix("torch."), (0.0, 0.0, 1.0))
    absolute, relative, matched = allowed
    found, wanted = actual.detach().double(), expected.detach().double()
    if not wanted.numel():
        return 0.0, True
    equal = torch.isclose(found, wanted, rtol=relative, atol=absolute, equal_nan=True)
    return float((found - wanted).abs().nan_to_num().max()), float(equal.double().mean()) >= matched


def _listed(result: Any) -> Sequence[torch.Tensor]:
    return list(result) if isinstance(result, tuple | list) else [result]
