"""One option: a dataclass field with its meaning, group and limits.

Options are named as Python names them. A command line derives its flags from the fields: see `cli/parameters.py`.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
import typing
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from ...core.errors import OptionError
    from ...core.events import Emit
else:  # what the command line imports must be light
    Emit = Callable[[Any], None]

T = TypeVar("T")

OUTPUT = "Output"
"""The group of options that every command has: the list of commands is shown without the other groups."""
DETAILS = "option"
"""Key of `Details` in a field's metadata."""


@dataclass(frozen=True)
class Details:
    """Meaning and range of an option."""

    help: str
    """One or two sentences. For a boolean that is true by default: what happens when it is false.

    `{choices}` stands for the names that the option takes; show `text`."""
    group: str = ""
    metavar: str | None = None
    above: float | None = None
    at_least: float | None = None
    at_most: float | None = None
    advice: str = ""
    """Advice for a number out of range, if needed."""
    also: tuple[str, ...] = ()
    """Other spellings of the flag: a short one, or those of another tool."""
    of_models: bool = False
    """Whether only language models use it."""
    trusted: bool = False
    """Whether a project's file may set the option only if the user trusts the project.

    Such options decide where keys and
    data go, what code runs and how it is contained, what a run may use, or what counts as proof."""
    texts: bool = False
    """Whether a command line gives it as strings, one flag for each, and no configuration can."""
    settable: bool = True
    """Whether a configuration may set it."""
    python_only: bool = False
    """Whether no command line can give it, such as an object."""
    argument: bool = False
    """Whether a command line also takes it as an argument."""
    choices: Callable[[], Mapping[str, str]] | None = None
    """Returns the names that it takes, each with a description, or ''. They are looked up when shown, since other
    packages may add some."""

    @property
    def text(self) -> str:
        """The help, with the names that the option takes: 'portfolio, grid or shuffled (of toy 1.0)'."""
        if self.choices is None:
            return self.help
        *others, last = [f"{name} ({about})" if about else name for name, about in self.choices().items()]
        return self.help.format(choices=f"{', '.join(others)} or {last}" if others else last)


def option(default: Any, help: str, group: str = "", **details: Any) -> Any:
    """A dataclass field with a default and its details."""
    return dataclasses.field(default=default, metadata=described(help, group, **details))


def described(help: str, group: str = "", **details: Any) -> dict[str, Details]:
    """The metadata of a dataclass field that is an option."""
    return {DETAILS: Details(help=help, group=group, **details)}


def details_of(field: dataclasses.Field[Any]) -> Details:
    """The details of a field that `option` made."""
    found: Details = field.metadata[DETAILS]
    return found


FieldType = tuple[dataclasses.Field[Any], Any]
"""An option, with its type."""


def settable_of(options: Any, without: Container[str] = ()) -> dict[str, FieldType]:
    """The options of a class that a configuration may set, by name, `without` some."""
    types, fields = types_of(options), [item for item in dataclasses.fields(options) if item.name not in without]
    return {field.name: (field, types[field.name]) for field in fields if _may_be_set(field, details_of(field))}


def _may_be_set(field: dataclasses.Field[Any], details: Details) -> bool:
    has_default = field.default is not dataclasses.MISSING
    return has_default and details.settable and not (details.texts or details.python_only)


def types_of(options: Any) -> dict[str, Any]:
    """The types of a dataclass's fields by name, evaluated."""
    return typing.get_type_hints(options)


@dataclass(frozen=True, kw_only=True)
class Options:
    """Base of all option classes. It converts plain values and checks ranges, and raises `OptionError`."""

    on_event: Emit | None = option(None, "Called with each event of `kernelwright.events`.", python_only=True)

    def __post_init__(self) -> None:
        types = types_of(type(self))
        for field in dataclasses.fields(self):
            value = convert(getattr(self, field.name), types[field.name], field.name)
            object.__setattr__(self, field.name, value)
            if DETAILS in field.metadata and isinstance(value, int | float) and not isinstance(value, bool):
                check_range(field.name, value, details_of(field))
        self.check()

    def check(self) -> None:
        """Raise `OptionError` for options that exclude each other."""

    def check_device(self, device: str) -> None:
        """Raise `OptionError` for options that the chosen device cannot serve."""


def mistake(message: str, hint: str = "") -> OptionError:
    """Return an `OptionError`. Its import loads all of `core`, for which help must not wait."""
    from ...core.errors import OptionError

    return OptionError(message, hint)


def convert(value: Any, wanted: Any, name: str) -> Any:
    """A value as a field's type wants it: paths and enumerations from texts, tuples from any iterable.

    `OptionError` for a text that is not a member of an enumeration.
    """
    origin, arguments = typing.get_origin(wanted), typing.get_args(wanted)
    if origin in (UnionType, typing.Union):
        if value is None and NoneType in arguments:
            return None
        plain = [argument for argument in arguments if argument is not NoneType]
        return convert(value, plain[0], name) if len(plain) == 1 else value
    if origin is tuple:
        items: Iterable[Any] = () if value is None else (value,) if isinstance(value, str | Path) else value
        return tuple(dict.fromkeys(convert(item, arguments[0], name) for item in items))
    if wanted is str and callable(value):
        from ...corpus.functions.target import reference_to

        return reference_to(value, name)
    if wanted is Path and isinstance(value, str):
        return Path(value)
    if isinstance(wanted, type) and issubclass(wanted, Enum) and not isinstance(value, wanted):
        try:
            return wanted(value)
        except ValueError:
            raise mistake(f"`{name}` {value!r}", f"use {', '.join(member.value for member in wanted)}") from None
    return value


def check_range(name: str, value: float, details: Details) -> None:
    """Raise `OptionError` for a number that the details exclude."""
    low, high, above = details.at_least, details.at_most, details.above
    if above is not None:
        fits, allowed = value > above, f"above {above:g}"
    elif low is not None and high is not None:
        fits, allowed = low <= value <= high, f"from {low:g} to {high:g}"
    elif low is not None:
        fits, allowed = value >= low, f"at least {low:g}"
    else:
        return
    if not math.isfinite(value):
        raise mistake(f"`{name}` must be {allowed} and finite, not {value:g}", details.advice)
    if not fits:
        raise mistake(f"`{name}` must be {allowed}, not {value:g}", details.advice)


def made_of(cls: type[T], options: Options, **own: Any) -> T:
    """Return a data class of these values; its other fields have the values of the options of the same names."""
    taken = (field.name for field in dataclasses.fields(cls) if field.name not in own)  # type: ignore[arg-type]
    return cls(**{name: getattr(options, name) for name in taken}, **own)


def documented(wrapper: Any, function: Any, options: Any, without: Container[str] = ()) -> None:
    """Give `wrapper` the name, the signature and the documentation of a function of these options, `without` some."""
    lines = []
    for field in sorted(dataclasses.fields(options), key=lambda field: field.name == "on_event"):
        if field.name in without:
            continue
        details = details_of(field)
        default = "" if field.default is dataclasses.MISSING else f" (default {field.default!s})"
        meaning = f"False: {details.text}" if field.default is True else details.text
        lines.append(f"    {field.name}: {meaning}{default}")
    wrapper.__name__ = wrapper.__qualname__ = function.__name__
    wrapper.__module__ = function.__module__
    wrapper.__doc__ = f"{function.__doc__}\n\nOptions:\n" + "\n".join(lines)
    signature = inspect.signature(options)
    wrapper.__signature__ = signature.replace(
        parameters=[given for name, given in signature.parameters.items() if name not in without],
        return_annotation=inspect.signature(function).return_annotation,
    )
