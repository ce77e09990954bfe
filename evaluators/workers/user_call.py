"""Calls of a user's function with arguments of any form, as a list of tensors and plain values, and back.

A problem's inputs and a model's results are flat lists. Where arguments have another form (dicts, data classes,
arguments by name), the first input is a `Layout` that says how the others are arranged.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

_TENSOR = "tensor"
OWNER = "self"
"""The argument with which a method's object is made: a list of its constructor's arguments, or a dict of them."""


@dataclass(frozen=True)
class TensorSlot:
    """Stands for an input, by its place."""

    index: int


@dataclass(frozen=True, eq=False)
class Layout:
    """The arguments of a call, with a `TensorSlot` for each tensor. Equal are those with the same text."""

    positional: tuple[Any, ...]
    named: Mapping[str, Any]

    @property
    def text(self) -> str:
        """The arrangement and all that is not a tensor, as a text that is the same in every process."""
        return _text((self.positional, self.named))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Layout) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)


_LAST: list[tuple[str, ...]] = [()]
"""The parts of the last result, as `result_parts` returns them."""
_NOTHING: list[bool] = [False]
"""Whether the last function returned no tensors."""
_WRITTEN: list[frozenset[int] | None] = [None]
"""The inputs that count as results of a function that returns none; None: all of them."""


def laid_out(found: Any) -> list[Any]:
    """Return what an inputs function returned as inputs: a list in order, a dict by name, or one tensor.

    Tensors, numbers, texts and None in a list stay as they are.
    """
    import torch

    if isinstance(found, torch.Tensor):
        return [found]
    if not isinstance(found, list | tuple | Mapping):
        raise TypeError(f"the inputs are a {type(found).__name__}; return the arguments in order, or a dict by name")
    plain = (torch.Tensor, bool, int, float, str, type(None))
    if not isinstance(found, Mapping) and all(isinstance(item, plain) for item in found):
        return list(found)
    tensors: list[Any] = []

    def slotted(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            tensors.append(value)
            return TensorSlot(len(tensors) - 1)
        return _mapped(value, slotted)

    named = {key: slotted(value) for key, value in found.items()} if isinstance(found, Mapping) else {}
    positional = () if isinstance(found, Mapping) else tuple(slotted(value) for value in found)
    return [Layout(positional, named), *tensors]


def called(
    function: Callable[..., Any], arguments: Sequence[Any], outputs: Sequence[str] = (), owner: Any = None
) -> Any:
    """Call a function with inputs as `laid_out` returns them; return the tensors that count, one alone as itself.

    These are the arguments that `outputs` names, or the tensors of the result; of a function that returns none, its
    tensor arguments, as far as the reference writes to them (`count_written`). `owner` is the class of a method: its
    object is made of the argument `self`.
    """
    _LAST[0] = ()
    given, named = _arranged(arguments)
    if inspect.isclass(owner) and OWNER in named:
        made = named.pop(OWNER)
        given = (owner(**made) if isinstance(made, Mapping) else owner(*made), *given)
    elif inspect.isclass(owner) and _needs_object(owner, function, given):
        given = (_made_alone(owner), *given)
    result = function(*given, **named)
    if outputs:
        bound = inspect.signature(function).bind(*given, **named).arguments
        found = _tensors([bound[name] for name in outputs if name in bound])
    else:
        found = _tensors(result)
        _NOTHING[0] = not found
        found = found or [item for item in _tensors([*given, *named.values()]) if _counts(item, arguments)]
        parts = _parts(result)
        _LAST[0] = parts if set(parts) - {_TENSOR} and result is not None else ()
    return found[0] if len(found) == 1 else tuple(found)


def count_written(numbers: Sequence[int]) -> None:
    """From now on let only these inputs count as results of functions that return none: others are workspaces.

    All of them do where there are no such inputs.
    """
    _WRITTEN[0] = frozenset(numbers) or None


def returned_nothing() -> bool:
    """Return whether the last function that was called in this process returned no tensors."""
    return _NOTHING[0]


def _counts(tensor: Any, arguments: Sequence[Any]) -> bool:
    written = _WRITTEN[0]
    return written is None or any(tensor is arguments[number] for number in written if number < len(arguments))


def _needs_object(owner: type, function: Callable[..., Any], given: Sequence[Any]) -> bool:
    """Return whether a method is called without the object that it is of."""
    plain = inspect.isfunction(function) and inspect.isfunction(inspect.getattr_static(owner, function.__name__, None))
    return plain and not (given and isinstance(given[0], owner))


def _made_alone(owner: type) -> Any:
    """Return an object of a class whose constructor needs no arguments."""
    try:
        inspect.signature(owner).bind()
    except TypeError:
        raise TypeError(
            f"{owner.__qualname__}{inspect.signature(owner)} needs arguments; let the inputs function return a dict, "
            f"and give them in it as {OWNER!r}"
        ) from None
    return owner()


def result_parts() -> tuple[str, ...]:
    """Return the parts of what the last call in this process returned, in order: numbers, None and texts as such a
    text, 'tensor' for each tensor. Nothing where there are tensors alone."""
    return _LAST[0]


def fixed_inputs(
    first: Sequence[Any], second: Sequence[Any], function: Callable[..., Any], names: Sequence[str] = ()
) -> set[int]:
    """Return which inputs are the same in two draws, and those of the function's arguments with these names."""
    import torch

    found = {
        number
        for number, (item, other) in enumerate(zip(first, second, strict=True))
        if isinstance(item, torch.Tensor) and item.shape == other.shape and torch.equal(item, other)
    }
    if not names:
        return found
    given, named = _arranged(first)
    bound = inspect.signature(function).bind_partial(*given, **named).arguments
    chosen = [id(item) for name in names if name in bound for item in _tensors(bound[name])]
    return found | {number for number, item in enumerate(first) if id(item) in chosen}


def input_names(arguments: Sequence[Any], function: Callable[..., Any] | None) -> list[str]:
    """Return the name of the argument that each input belongs to; its number where that is not known."""
    given, named = _arranged(arguments)
    names = [str(number) for number in range(len(arguments))]
    try:
        bound = inspect.signature(function).bind_partial(*given, **named).arguments if function else {}
    except (TypeError, ValueError):  # a method without its object, or compiled code
        bound = named
    for name, value in bound.items():
        owned = {id(item) for item in _tensors(value)} or {id(value)}
        names = [name if id(item) in owned else known for item, known in zip(arguments, names, strict=True)]
    return ["numbers" if isinstance(item, Layout) else name for item, name in zip(arguments, names, strict=True)]


def _arranged(arguments: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if not arguments or not isinstance(arguments[0], Layout):
        return tuple(arguments), {}
    layout, tensors = arguments[0], arguments[1:]

    def filled(value: Any) -> Any:
        return tensors[value.index] if isinstance(value, TensorSlot) else _mapped(value, filled)

    return tuple(map(filled, layout.positional)), {key: filled(value) for key, value in layout.named.items()}


def _mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return a container with its members changed; anything else as it is."""
    if isinstance(value, Mapping):
        return type(value)({key: change(item) for key, item in value.items()})  # type: ignore[call-arg]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(change, value))
    if isinstance(value, list | tuple):
        return type(value)(map(change, value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type | TensorSlot):
        fields = {item.name: change(getattr(value, item.name)) for item in dataclasses.fields(value) if item.init}
        return dataclasses.replace(value, **fields)
    return value


def _text(value: Any) -> str:
    """Return what an argument is, as a text; of an object that is nothing known here only its class."""
    if value is None or isinstance(value, bool | int | float | complex | str | TensorSlot):
        return repr(value)
    if isinstance(value, Enum):
        return f"{type(value).__qualname__}.{value.name}"
    if isinstance(value, Mapping):
        items = ", ".join(f"{_text(key)}: {_text(item)}" for key, item in value.items())
        return f"{type(value).__qualname__}({items})"
    if _is_data(value) or isinstance(value, list | tuple):
        return f"{type(value).__qualname__}({', '.join(map(_text, _members(value)))})"
    if type(value).__module__.partition(".")[0] in ("numpy", "torch"):
        return f"{type(value).__qualname__}({value.tolist() if hasattr(value, 'tolist') else value!s})"
    return type(value).__qualname__


def _parts(value: Any) -> tuple[str, ...]:
    """Return the parts of a result in order; what is neither a tensor nor a plain value counts for nothing."""
    import torch

    if isinstance(value, torch.Tensor):
        return (_TENSOR,)
    if isinstance(value, bool | int | float | complex | str | type(None)):
        return (repr(value),)
    if isinstance(value, Enum | torch.dtype):
        return (_text(value),)
    return tuple(part for item in _members(value) for part in _parts(item))


def _tensors(value: Any) -> list[Any]:
    """Return the tensors in a value, in order."""
    import torch

    return (
        [value] if isinstance(value, torch.Tensor) else [found for item in _members(value) for found in _tensors(item)]
    )


def _members(value: Any) -> Sequence[Any]:
    """Return what a container holds, in order; nothing for anything else."""
    if isinstance(value, Mapping):
        return list(value.values())
    if _is_data(value):
        return [getattr(value, item.name) for item in dataclasses.fields(value)]
    return value if isinstance(value, list | tuple) else ()


def _is_data(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)
