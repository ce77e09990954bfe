"""Loads problem and kernel source as modules inside a worker."""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

ZERO_DRAWS = 8
"""Draws in which an element is zero that always is: of those that are zero by chance few are so each time."""
PREPARE = "prepare"
"""The method of a kernel's class that packs its weights, once after they are loaded."""


def load(name: str, path: Path) -> ModuleType:
    """Execute a file as a module; it stays importable by name, as pickling and inspect expect."""
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot load {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


class ProblemModule:
    """A problem's functions at given sizes, with inputs created from a seed on the device itself."""

    def __init__(self, path: Path, sizes: Mapping[str, Any], device: str) -> None:
        import torch

        self.module = load("kernelwright_problem", path)
        self.device = device
        self._fixed: frozenset[int] | None = None
        self._zeros: dict[int, Any] | None = None
        self._integers: int | None = None
        # Bound now: a candidate's code may replace it later.
        self._manual_seed = torch.manual_seed if device != "cpu" else torch.default_generator.manual_seed
        for name, value in sizes.items():
            # JSON has no tuples: a size that is a list was a tuple.
            setattr(self.module, name, tuple(value) if isinstance(value, list) else value)

    def init_inputs(self) -> Sequence[Any]:
        """Return the arguments of the reference's constructor."""
        inputs: Sequence[Any] = self.module.get_init_inputs()
        return inputs

    def inputs(self, seed: int) -> list[Any]:
        """Return fresh inputs: the same for the same seed, in any process.

        While integers are held (`hold_integers`), all but floating-point tensors are those of that seed.
        """
        if self._integers is None:
            return self._drawn(seed)
        pairs = zip(self._drawn(self._integers), self._drawn(seed), strict=True)
        return [_held(number, *pair) for number, pair in enumerate(pairs)]

    def hold_integers(self, seed: int | None) -> None:
        """From now on let all inputs have the integers and plain values of this seed; None ends that."""
        self._integers = seed

    @contextlib.contextmanager
    def holding(self, seed: int | None) -> Iterator[None]:
        """Hold the integers of a seed within the context."""
        before, self._integers = self._integers, seed
        try:
            yield
        finally:
            self._integers = before

    def _drawn(self, seed: int) -> list[Any]:
        import torch

        with torch.device(self.device):
            self._manual_seed(seed)
            return [_to(value, self.device) for value in self.module.get_inputs()]

    @property
    def zeros(self) -> dict[int, Any]:
        """Masks of the elements of a user's inputs that are always zero, such as those above a diagonal; by input."""
        if self._zeros is None:
            self._zeros = {}
            if hasattr(self.module, "get_fixed"):
                masks: dict[int, Any] = {}
                for seed in range(ZERO_DRAWS):  # one set of inputs at a time: they may be large
                    masks = _zero_in_all(masks if seed else None, self._drawn(seed))
                self._zeros = {
                    number: mask for number, mask in masks.items() if bool(mask.any()) and not bool(mask.all())
                }
        return self._zeros

    @property
    def fixed(self) -> frozenset[int]:
        """Which inputs stay as the problem makes them where others are drawn from other distributions.

        Those that `get_fixed` of the problem's file says, given the inputs of two seeds: tables, offsets, scales.
        """
        if self._fixed is None:
            find = getattr(self.module, "get_fixed", None)
            self._fixed = frozenset(find(self._drawn(0), self._drawn(1)) if find is not None else ())
        return self._fixed

    @property
    def keeps_numbers(self) -> bool:
        """Whether whole numbers and flags are always as the problem makes them: they may be indices and lengths."""
        return hasattr(self.module, "get_fixed")

    def model(self, seed: int) -> Any:
        """Return the reference with weights drawn from the seed."""
        return construct(lambda: self.module.Model(*self.init_inputs()), self.device, seed).to(self.device)


def construct(make: Callable[[], Any], device: str, seed: int) -> Any:
    """Return the module that `make` constructs, with its weights drawn from the seed.

    On the device, since drawing gigabytes of weights on a CPU takes a minute; what cannot be constructed there, on the
    CPU. The caller moves the rest.
    """
    import torch

    if device != "cpu":
        with contextlib.suppress(Exception), torch.device(device):
            torch.manual_seed(seed)
            return make()
        torch.manual_seed(seed)
    else:  # torch.manual_seed stores a stack trace for each kind of device, which takes longer than drawing
        torch.default_generator.manual_seed(seed)
    return make()


def load_weights(model: Any, state: Mapping[str, Any] | None = None) -> None:
    """Load weights into a candidate's model, or its own again, and let it pack them: by its hooks, and by `prepare`.

    `prepare` is a method of its class that takes no arguments; one that takes some is something else.
    """
    import torch

    module = torch.nn.Module
    with torch.no_grad():
        module.load_state_dict(model, module.state_dict(model) if state is None else state)
        prepare = getattr(model, PREPARE, None)
        if callable(prepare) and not _requires_arguments(prepare):
            prepare()


def _requires_arguments(function: Callable[..., Any]) -> bool:
    given = inspect.signature(function).parameters.values()
    return any(
        item.default is item.empty and item.kind not in (item.VAR_POSITIONAL, item.VAR_KEYWORD) for item in given
    )


def _to(value: Any, device: str) -> Any:
    import torch

    return value.to(device) if isinstance(value, torch.Tensor) else value


def is_continuous(value: Any) -> bool:
    """Return whether this is a tensor of real or complex numbers; any other input counts as integers."""
    import torch

    return isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex())


def _zero_in_all(masks: dict[int, Any] | None, inputs: list[Any]) -> dict[int, Any]:
    """Return masks of the elements that are zero in these inputs and in all before them, by input; `masks` are those of
    the latter, None without. Inputs whose shapes differ have none."""
    zero = {number: _is_zero(value) for number, value in enumerate(inputs) if is_continuous(value)}
    if masks is None:
        return zero
    return {
        number: mask & zero[number]
        for number, mask in masks.items()
        if number in zero and mask.shape == zero[number].shape
    }


def _is_zero(value: Any) -> Any:
    return (value.float() if value.is_floating_point() and value.element_size() == 1 else value) == 0


def _held(number: int, kept: Any, other: Any) -> Any:
    """Return the input of the seed whose integers are held, or the other one's floating-point numbers."""
    if not is_continuous(kept):
        return kept
    if not is_continuous(other) or kept.shape != other.shape:
        raise ValueError(f"input {number} has another shape for another seed")
    return other


@contextlib.contextmanager
def unobserved() -> Iterator[None]:
    """Call torch without the dispatch modes that record or count operators."""
    from torch.utils._python_dispatch import _disable_current_modes

    with _disable_current_modes():
        yield


def outputs_of(result: Any) -> list[Any]:
    """Return the tensors of a forward call's result, in order."""
    return list(result) if isinstance(result, tuple | list) else [result]


def form_of(result: Any) -> Literal["tensor", "tuple", "list"]:
    """Return whether a call's result is one tensor, a tuple or a list."""
    return "tuple" if type(result) is tuple else "list" if type(result) is list else "tensor"


def weights_of(model: Any) -> dict[str, Any]:
    """Return a model's parameters and persistent buffers by name, whatever methods the model overrides."""
    import torch

    state = torch.nn.Module.state_dict(model, keep_vars=True)
    return {name: tensor.detach() for name, tensor in state.items()}
