"""The parameters of a candidate made from a user's function: names, starts and values to try."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ...core import Value
from ...core.parameter_roles import constant_prefix
from ...core.space_inference import suggest
from .autotuning import Autotuned
from .launches import Launched


def unique_constants(wanted: Sequence[tuple[str, Sequence[str]]], taken: Collection[str]) -> list[dict[str, str]]:
    """Return the constants for the parameters of each kernel, under names that mean nothing else in any of the texts,
    nor in another kernel.
    """
    used, found = set(taken), []
    counts = [name for _, names in wanted for name in names]
    for kernel, parameters in wanted:
        names: dict[str, str] = {}
        long = constant_prefix(kernel)
        for name in parameters:
            first = [name.upper()] if counts.count(name) == 1 else []
            choices = [*first, f"{long}_{name.upper()}", *(f"{long}_{name.upper()}_{n}" for n in range(2, 1000))]
            names[name] = next(choice for choice in choices if choice not in used)
            used.add(names[name])
        found.append(names)
    return found


def declarations(
    kernels: Sequence[Autotuned], launched: Sequence[Launched] = (), constants: Mapping[str, Value] | None = None
) -> str:
    """Return the constants with their first values, the search space, and all configs as those to try first.

    `constants` are the user's own, in the texts: those with a known kind of name can be searched too.
    """
    if not kernels and not launched:
        return ""
    first: dict[str, Value] = {}
    for kernel in kernels:
        first |= {kernel.constants[name]: value for name, value in kernel.configs[0].items()}
    tuned = {**first}
    first |= {item.constant: item.start for item in launched}
    others = suggest(constants or {})
    present = {name: value for name, value in (constants or {}).items() if name in others}
    configs = [
        {**first, **present, **{kernel.constants[name]: value for name, value in config.items()}}
        for kernel in kernels
        for config in kernel.configs
    ]
    least = min((item.least for item in kernels), default=1)
    # By the parameter's own name: a kernel's name before it says nothing about its kind.
    own = {constant: name.upper() for item in kernels for name, constant in item.constants.items()}
    near = {name: list(suggest({own[name]: value}).get(own[name], ())) for name, value in tuned.items()}
    near = {name: [item for item in values if _worth(name, item, least)] for name, values in near.items()}
    space = {name: sorted({*near.get(name, ()), *(item[name] for item in configs)}, key=_order) for name in tuned}
    space |= {item.constant: list(item.values) for item in launched}
    space |= {name: list(values) for name, values in others.items()}
    lines = [f"{name} = {value!r}" for name, value in first.items()]
    lines += ["", "SEARCH_SPACE = {", *(f"    {name!r}: {values!r}," for name, values in space.items()), "}"]
    unique = list(dict.fromkeys(repr(item) for item in configs))
    return "\n".join([*lines, *(["CONFIGS = [", *(f"    {item}," for item in unique), "]"] if unique else [])]) + "\n"


def _worth(name: str, value: Value, least: int) -> bool:
    return not name.rpartition("BLOCK")[1] or not isinstance(value, int) or value >= least


def _order(value: Value) -> tuple[bool, Any]:
    return isinstance(value, str), value
