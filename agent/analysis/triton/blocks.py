"""What a launch says about the size of its function's blocks."""

from __future__ import annotations

from collections.abc import Collection

import libcst as cst
import libcst.matchers as m

from ..search import find_all
from ..source import code
from .dots import SPLIT_DOT
from .kernel import Launch


def axes_of(launch: Launch, leave_out: Collection[str] = ()) -> list[str] | None:
    """Return the texts of the sizes of `tl.arange` on the host, each once, without ones and without some parameters.

    Their product is the number of elements of the function's largest block. None where one is not known there.
    """
    found: list[str] = []
    for call in launch.function.calls("arange"):
        size = call.args[1].value if len(call.args) == 2 else None
        text = launch.function.literal(size)
        if isinstance(size, cst.Name) and size.value in launch.function.parameters:
            if size.value in leave_out:
                continue
            text = code(launch.arguments[size.value]) if size.value in launch.arguments else None
        if text is None:
            return None
        if text not in found and text != "1":
            found.append(text)
    return found


def searched_axes(launch: Launch, constants: Collection[str]) -> str | None:
    """Return the size of the block as an expression over the file's constants; None where it is not one."""
    axes = axes_of(launch)
    if axes is None or not all(axis in constants or axis.isdigit() for axis in axes):
        return None
    return " * ".join(axes) or "1"


def has_products(launch: Launch) -> bool:
    """Return whether the function has matrix products."""
    products = m.Attribute(attr=m.Name("dot")) | m.Name(SPLIT_DOT)
    return bool(find_all(launch.function.node, m.Call(func=products)))
