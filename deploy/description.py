"""Arguments and results of an operator, found by tracing its reference in a sandbox."""

from __future__ import annotations

import json
import keyword
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core import KernelError
from ..core.dynamic_size import FreeSize
from ..core.environment import allowed_environment
from ..core.file_locks import temporary_folder
from ..corpus.functions.running import confined_answer_of
from .source import MeasuredKernel

TIMEOUT_S = 300.0
"""Seconds for the program, which imports torch and the kernels' languages."""
_PROGRAM = Path(__file__).with_name("description_program.py")


@dataclass(frozen=True)
class OperatorDescription:
    """Arguments, results and needs of a kernel and its reference, at one set of sizes."""

    names: tuple[str, ...]
    """The operator's arguments: inputs, then weights."""
    weights: tuple[str, ...]
    """The weights' names in the reference."""
    arguments: tuple[Any, ...]
    """[dtype, sizes] of a tensor, where a size may be 'tokens' or '64*tokens'; a number of another argument.

    A tensor that is not contiguous has a third element, the order of its dimensions in memory, the outermost first.
    """
    types: tuple[str, ...]
    """The arguments' types: Tensor, int, float or bool."""
    outputs: int
    returns_tuple: bool
    reference_has_own_tensors: bool
    kernel_has_own_tensors: bool
    value: int | None
    """The free size's value when the kernel was measured."""
    constructor: str
    """The constructor's arguments, as text."""

    @classmethod
    def of(cls, path: Path, free: FreeSize | None, found: Mapping[str, Any]) -> OperatorDescription:
        """Return the description in a program's answer. Raises `KernelError` if no operator can have it."""
        written, lacks = found["written"], found["lacks"]
        if written:
            raise KernelError(
                f"{path}: its reference writes to {', '.join(written)}; an operator must write to nothing"
            )
        if found["packs"]:
            raise KernelError(
                f"{path} packs its weights once, and an operator gets them with each call; deploy a kernel without "
                "`prepare`"
            )
        if lacks:
            raise KernelError(f"{path}: its ModelNew has no weight {', '.join(lacks)} of the reference's")
        inputs = [_argument(path, name, item) for name, item in zip(found["names"], found["inputs"], strict=True)]
        given = [*inputs, *(_argument(path, name, item) for name, item in found["weights"].items())]
        if not any(isinstance(item, list) for item in inputs):
            raise KernelError(f"{path}: its reference takes no tensor")
        if any(not isinstance(item, list) for item in found["outputs"]) or not found["outputs"]:
            raise KernelError(f"{path}: its reference returns something that is not a tensor")
        if free is not None:
            twice = found["twice"]
            if twice["constructor"] != found["constructor"]:
                raise KernelError(f"{path}: {free.name} is an argument of the constructor, so it cannot be free")
            others = [*twice["inputs"], *twice["weights"].values()]
            given = [_free(path, free.name, found["value"], *pair) for pair in zip(given, others, strict=True)]
        names = [*found["names"], *(name.replace(".", "_") for name in found["weights"])]
        if bad := [name for name in names if not name.isidentifier() or keyword.iskeyword(name)]:
            raise KernelError(f"{path}: {bad[0]} is not a name for an argument")
        if taken := {"OPERATOR", "Tensor"} & set(names):
            raise KernelError(f"{path}: every package has a name {min(taken)}; rename forward's argument")
        if len(set(names)) < len(names):
            raise KernelError(f"{path}: an input and a weight have the same name; rename forward's argument")
        return cls(
            names=tuple(names),
            weights=tuple(found["weights"]),
            arguments=tuple(given),
            types=tuple("Tensor" if isinstance(item, list) else type(item).__name__ for item in given),
            outputs=len(found["outputs"]),
            returns_tuple=found["returns_tuple"],
            reference_has_own_tensors=found["reference_has_own_tensors"],
            kernel_has_own_tensors=found["kernel_has_own_tensors"],
            value=found.get("value") if free is not None else None,
            constructor=found["constructor"],
        )

    @property
    def signature(self) -> tuple[Any, ...]:
        """The common part of all kernels of an operator."""
        return self.names, self.weights, self.types, self.outputs, self.returns_tuple

    @property
    def of_weights(self) -> tuple[Any, ...]:
        """The arguments that are weights."""
        return self.arguments[len(self.arguments) - len(self.weights) :]


def require_size(kernels: Sequence[MeasuredKernel], free: FreeSize) -> None:
    """Raise `KernelError` for a kernel whose problem has no such size, or reads it elsewhere than from its inputs."""
    for item in kernels:
        if free.name not in item.problem.integers:
            known = ", ".join(item.problem.integers) or "none"
            raise KernelError(f"{item.path}: its problem has no size {free.name}; it has {known}")
        if free.name in item.problem.read_constants:
            raise KernelError(f"{item.path}: its Model reads {free.name} while it computes, so it cannot be free")


def stated_range(kernels: Sequence[MeasuredKernel]) -> FreeSize | None:
    """Return the common range of results that state one; None if none does.

    Raises `KernelError` if only some do, or for different sizes.
    """
    stated = [item.serves for item in kernels if item.serves is not None]
    if not stated:
        return None
    if len(stated) < len(kernels) or len({free.name for free in stated}) > 1:
        raise KernelError("results of `optimize --dynamic` and others; deploy each by itself")
    return FreeSize(stated[0].name, min(free.low for free in stated), max(free.high for free in stated))


def describe(name: str, kernels: Sequence[MeasuredKernel], free: FreeSize | None) -> list[OperatorDescription]:
    """Return the description of each kernel, in one process in a sandbox, where no kernel is launched.

    Raises `KernelError` if it fails, if the operator's name is taken, and for a torch without `triton_op`.
    """
    rows = [
        {
            "reference": item.problem.source,
            "kernel": item.kernel.source,
            "sizes": item.sizes,
            "free": free.name if free is not None else None,
        }
        for item in kernels
    ]
    request = json.dumps({"name": name, "kernels": rows})
    environment = allowed_environment(os.environ, asked_by=request)
    with temporary_folder("kernelwright-deploy-") as folder:
        failure = f"{', '.join(str(item.path) for item in kernels)} cannot be traced"
        found = confined_answer_of(_PROGRAM.read_text(), folder, [], request, TIMEOUT_S, failure, environment)
    if not found["triton_op"]:
        raise KernelError(f"torch {found['torch']} has no torch.library.triton_op; operators need torch 2.6 or newer")
    if found["taken"]:
        raise KernelError(f"torch has an operator {name} already; choose another `name`")
    return [OperatorDescription.of(item.path, free, row) for item, row in zip(kernels, found["kernels"], strict=True)]


def _argument(path: Path, name: str, item: Any) -> Any:
    if isinstance(item, dict):
        raise KernelError(f"{path}: {name} is a {item['type']}; an operator takes tensors and numbers")
    if not isinstance(item, list):
        return item
    dtype, shape, order = item
    if order is None:
        raise KernelError(f"{path}: it was measured with a {name} that has gaps in memory, which no operator serves")
    return [dtype, shape] if order == sorted(order) else [dtype, shape, order]


def _free(path: Path, name: str, value: int, item: Any, twice: Any) -> Any:
    """Return an argument with the free size in place of the dimensions that are multiples of it."""
    if not isinstance(item, list):
        return item
    sizes: list[Any] = []
    for size, other in zip(item[1], twice[1], strict=True):
        if size == other:
            sizes.append(size)
        elif other == 2 * size and size % value == 0:
            sizes.append(name if size == value else f"{size // value}*{name}")
        else:
            raise KernelError(f"{path}: a dimension is {size} at {name}={value} and {other} at twice that, no multiple")
    return [item[0], sizes, *item[2:]]
