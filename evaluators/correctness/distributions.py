"""Other inputs and weights than the problem's own, on which a kernel must be correct too.

Each check has a name: that of a distribution of the inputs, or what else is changed. `draw` and `change_weights` make
the same from a seed in every process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..workers.modules import ProblemModule
from .eight_bit import narrowed, widened
from .mixed_rows import MIXED, Mixture, main_input, mixed

STRUCTURE = "structure"
OTHER_WEIGHTS = "other weights"
"""The problem's own inputs, with weights far from their initial values."""
OTHER_NUMBERS = "other whole numbers"
"""The problem's own inputs, with other whole numbers of the same range, and flags in another order, where these are the
same for every seed."""
OTHER_STRIDES = "other strides"
"""The values of the problem's own inputs, in tensors that are not contiguous."""
SPECIAL = "NaN and infinity"
"""A few elements that are not numbers. A kernel that treats them otherwise is not wrong; it is reported."""
SPECIAL_ELEMENTS = 8


def _signs(x: Any, generator: Any) -> Any:
    import torch

    signs = torch.randint(0, 2, x.shape, generator=generator, device=x.device, dtype=torch.int8) * 2 - 1
    return x * signs.to(x.dtype)


def _heavy_tails(x: Any, generator: Any) -> Any:
    return _normal(x, generator).mul_(1.5).exp_().to(x.dtype).mul_(x)  # in place: inputs may be large


def _structure(x: Any, generator: Any) -> Any:
    """Set a quarter to zero and a quarter to one value: empty rows, and ties where one element is selected."""
    flat = x.clone().reshape(-1)
    quarter = flat.numel() // 4
    flat[:quarter] = 0
    flat[quarter : 2 * quarter] = flat[-1:]
    return flat.reshape(x.shape)


def _special(x: Any, generator: Any) -> Any:
    import torch

    flat = x.clone().reshape(-1)
    count = min(SPECIAL_ELEMENTS, flat.numel() // 64)
    places = torch.randint(0, max(1, flat.numel()), (3, count), generator=generator, device=x.device)
    for place, value in zip(places, (float("nan"), float("inf"), -float("inf")), strict=True):
        flat[place] = value
    return flat.reshape(x.shape)


_CHANGES: dict[str, Callable[[Any, Any], Any]] = {
    "signs": _signs,
    "small": lambda x, generator: x * 1e-2,
    "large": lambda x, generator: x * 64,
    "heavy tails": _heavy_tails,
    STRUCTURE: _structure,
}
DISTRIBUTIONS = tuple(_CHANGES)
"""Distributions that checks use in addition to the problem's own inputs, where the reference supports them."""
_FACTORS = {f"times {factor:g}": factor for factor in (1e30, 1e12, 1e6, 1e4, 1e3)}
MAGNITUDES = tuple(_FACTORS)
"""Distributions of ever smaller numbers, of which the first is used that the dtype and the reference support."""


def draw(problem: ProblemModule, seed: int, distribution: str | None = None) -> list[Any]:
    """Draw a problem's inputs for a seed, optionally with another distribution; the same in every process."""
    inputs = problem.inputs(seed)
    if distribution is None or distribution == OTHER_WEIGHTS:
        return inputs
    if distribution == OTHER_STRIDES:
        return [with_other_strides(value) for value in inputs]
    generator = generator_of(seed, problem.device)
    if distribution == OTHER_NUMBERS and problem.keeps_numbers:
        return inputs
    if distribution == OTHER_NUMBERS:
        again = problem.inputs(seed + 1)
        return [_renumbered(*pair, generator) for pair in zip(inputs, again, strict=True)]
    if distribution in MIXED:
        changed = _mixed(inputs, seed, problem.device, MIXED[distribution])
    else:
        changed = [
            _laid_out_like(value, _changed(value, distribution, generator)) if is_floating(value) else value
            for value in inputs
        ]
    for number, mask in problem.zeros.items():
        if number not in problem.fixed and changed[number].shape == mask.shape:
            kept = narrowed(widened(changed[number]).masked_fill(mask, 0), changed[number].dtype)
            changed[number] = _laid_out_like(changed[number], kept)  # a triangle stays one
    return [inputs[number] if number in problem.fixed else value for number, value in enumerate(changed)]


def _mixed(inputs: Sequence[Any], seed: int, device: str, mixture: Mixture) -> list[Any]:
    main = main_input(inputs)
    return [
        # The same numbers for each, so that a quiet row meets a quiet one.
        _laid_out_like(value, mixed(value, generator_of(seed, device), mixture))
        if number == main or (mixture.alike and is_floating(value) and value.shape == inputs[main].shape)
        else value
        for number, value in enumerate(inputs)
    ]


def _laid_out_like(value: Any, changed: Any) -> Any:
    """Return the changed tensor with the strides of the other one."""
    return changed if changed.stride() == value.stride() else same_layout(value).copy_(changed)


def _changed(value: Any, distribution: str, generator: Any) -> Any:
    wide = widened(value)
    if distribution == SPECIAL:
        return _special(wide, generator).to(value.dtype)
    if distribution in _FACTORS:
        return narrowed(wide * _FACTORS[distribution], value.dtype)
    return narrowed(_CHANGES[distribution](wide, generator), value.dtype)


def _renumbered(value: Any, again: Any, generator: Any) -> Any:
    """Return whole numbers and flags that two seeds share with their longest axis in another order; others unchanged.

    Numbers are also counted from the other end of their range, else what is sorted would stay as it was; those that
    ascend, such as offsets, go on to do so in other steps.
    """
    import torch

    if not isinstance(value, torch.Tensor) or is_floating(value) or value.is_complex() or value.numel() < 2:
        return value
    if value.shape != again.shape or not torch.equal(value, again):
        return value
    axis = max(range(value.dim()), key=lambda dim: value.shape[dim])
    steps = value.diff() if value.dim() == 1 and value.dtype != torch.bool else None
    if steps is not None and bool((steps >= 0).all()):
        order = torch.randperm(len(steps), generator=generator, device=value.device)
        return torch.cat([value[:1], value[:1] + steps[order].cumsum(0)]).to(value.dtype)
    order = torch.randperm(value.shape[axis], generator=generator, device=value.device)
    ends = () if value.dtype == torch.bool else torch.aminmax(value, dim=axis, keepdim=True)
    return _laid_out_like(value, (sum(ends) - value if ends else value).index_select(axis, order))


def with_other_strides(value: Any) -> Any:
    """Return a tensor of the same values that is not contiguous: its last two axes lie in memory the other way round.

    Of one axis, every second element is used, with NaN between them.
    """
    import torch

    if not isinstance(value, torch.Tensor) or value.layout != torch.strided or not value.is_contiguous():
        return value
    axes = [axis for axis, extent in enumerate(value.shape) if extent > 1]
    if len(axes) > 1:
        return value.transpose(*axes[-2:]).contiguous().transpose(*axes[-2:])
    if not axes:
        return value
    spread = value.new_empty((*value.shape, 2)).fill_(float("nan") if value.is_floating_point() else 0)
    spread[..., 0] = value
    return spread[..., 0]


def same_layout(value: Any) -> Any:
    """Return a copy of a tensor with its strides; where its memory has gaps, they hold NaN."""
    import torch

    copy = value.clone()
    if copy.stride() == value.stride() or value.layout != torch.strided or not value.numel():
        return copy
    length = 1 + sum((extent - 1) * stride for extent, stride in zip(value.shape, value.stride(), strict=True))
    if length < value.numel():  # an expanded tensor
        return copy
    memory = value.new_empty(length).fill_(float("nan") if value.is_floating_point() else 0)
    return memory.as_strided(value.shape, value.stride()).copy_(value)


def vary_constants(model: Any, seed: int) -> Any:
    """Add noise to parameters whose elements are all equal (a normalization's weights of 1), and to the running mean
    and variance of a normalization that has seen no data.

    A kernel that ignores such a tensor would otherwise be correct by chance. Returns the model.
    """
    generators = _Generators(seed)
    for parameter in model.parameters():
        if parameter.is_floating_point() and _is_constant(parameter):
            _add(parameter, 0.1, generators)
    for module in model.modules():
        mean, variance = getattr(module, "running_mean", None), getattr(module, "running_var", None)
        if mean is not None and variance is not None and _is_constant(mean) and _is_constant(variance):
            mean.add_(0.1 * generators.normal(mean))
            variance.mul_(1 + 0.1 * generators.normal(variance).abs())
    return model


def change_weights(model: Any, seed: int) -> Any:
    """Add noise as large as the parameters themselves to all of them; returns the model.

    A kernel may rely on nothing that only holds for initial weights, such as their bounds.
    """
    generators = _Generators(seed + 1)
    for parameter in model.parameters():
        if parameter.is_floating_point() and parameter.numel():
            size = float(widened(parameter.detach()).double().square().mean().sqrt())
            _add(parameter, size or 0.1, generators)
    return model


def _add(parameter: Any, size: float, generators: _Generators) -> None:
    wide = widened(parameter.detach())
    parameter.data.copy_(narrowed(wide + size * generators.normal(wide), parameter.dtype))


class _Generators:
    """One generator on each device that a model has parameters on."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._known: dict[Any, Any] = {}

    def normal(self, like: Any) -> Any:
        if like.device not in self._known:
            self._known[like.device] = generator_of(self._seed, like.device)
        return _normal(like, self._known[like.device]).to(like.dtype)


def generator_of(seed: int, device: Any) -> Any:
    """Return a generator for what is derived from a seed: not the inputs' own, or it would repeat their numbers."""
    import torch

    return torch.Generator(device).manual_seed((seed * 6364136223846793005 + 1442695040888963407) % (1 << 63))


def is_floating(value: Any) -> bool:
    """Return whether this is a tensor of floating-point numbers."""
    import torch

    return isinstance(value, torch.Tensor) and value.is_floating_point()


def _normal(like: Any, generator: Any) -> Any:
    import torch

    return torch.randn(like.shape, generator=generator, device=like.device, dtype=torch.float32)


def _is_constant(tensor: Any) -> bool:
    flat = widened(tensor.detach().reshape(-1))
    return bool(flat.numel() and (flat == flat[0]).all())
