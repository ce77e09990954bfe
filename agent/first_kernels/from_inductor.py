"""Writes a kernel file from the code that torch's compiler made of a reference."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ...core import PythonKernel, TorchProblem
from ...core.generated_code import GeneratedCode
from ..applied_rules import formatted
from ..rules import Machine, NotApplicableError
from ..rules.triton.split_precision import precision_choice
from .dead_code import tidied
from .kernels import GeneratedKernel, helper, kernels_of
from .model_source import SIZES, argument, forward_signature, imports, model
from .unsupported_code import UnsupportedCodeError
from .wrapper import Wrapper, names_of, weight_expression


def first_kernel(problem: TorchProblem, code: GeneratedCode, library: bool = False) -> PythonKernel:
    """Return the kernel. Raises `UnsupportedCodeError` for what cannot be rewritten.

    With `library` it may have no kernel of its own, and call torch's library alone.
    """
    kernels = list(kernels_of(code))
    signature = forward_signature(problem.source)
    given = {number: argument(signature, number) for number in code.inputs}
    inputs = {number: re.sub(r"\W+", "_", expression).strip("_") for number, expression in given.items()}
    wrapper = Wrapper(code, kernels, names_of(code.weights, inputs))
    if not kernels and not (library and wrapper.library):
        left = ", ".join(dict.fromkeys(wrapper.library)) or "moving data"
        raise UnsupportedCodeError(
            f"torch's compiler leaves all of it to its library ({left}) and makes no Triton kernel"
        )
    weights = [
        f"{name} = {weight_expression(weight)}"
        for weight, name in zip(code.weights, names_of(code.weights, {}), strict=True)
        if name in wrapper.used
    ]
    contiguous = [f"{name} = {given[number]}.contiguous()" for number, name in inputs.items() if name in wrapper.used]
    forward = [*weights, *contiguous, *wrapper.statements]
    helpers = [helper(text) for text in code.helpers.values()]
    parts = [
        *helpers,
        *(kernel.text for kernel in kernels),
        model(problem, signature, forward),
    ]
    top = [
        _header(problem, kernels, wrapper.library),
        imports(problem, [*helpers, *(kernel.source for kernel in kernels)]),
        *_constants(kernels),
    ]
    kernel = PythonKernel.parse("\n\n\n".join(["\n\n".join(filter(None, top)), *parts]) + "\n", problem.name)
    # Inductor computes fp32 products without tensor cores, which are a search's to choose.
    with contextlib.suppress(NotApplicableError):
        kernel = precision_choice("ieee").apply(kernel, Machine(cores=1)).kernel
    return formatted(replace(kernel, source=tidied(kernel.source)))


def _header(problem: TorchProblem, kernels: Sequence[GeneratedKernel], library: Sequence[str]) -> str:
    count = f"{len(kernels)} Triton kernel{'s' if len(kernels) > 1 else ''}"
    left = f"; torch computes {', '.join(dict.fromkeys(library))}" if library else ""
    made = f"{count}, written by torch.compile and rewritten{left}" if kernels else left.removeprefix("; ")
    return f'"""{problem.name}: {made}.\n\n{SIZES}\n"""'


def _constants(kernels: Sequence[GeneratedKernel]) -> Iterator[str]:
    """Yield the constants and their possible values."""
    values = [
        f"{name} = {json.dumps(kernel.values[own])}" for kernel in kernels for own, name in kernel.constants.items()
    ]
    choices = [
        f'    "{name}": {json.dumps(list(kernel.choices[own]))},'
        for kernel in kernels
        for own, name in kernel.constants.items()
    ]
    constraints = [f'    "{constraint}",' for kernel in kernels for constraint in kernel.constraints]
    yield "\n".join(values)
    yield "\n".join(["SEARCH_SPACE = {", *choices, "}"]) if choices else ""
    yield "\n".join(["CONSTRAINTS = [", *constraints, "]"]) if constraints else ""
