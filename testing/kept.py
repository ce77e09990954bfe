"""Keeps what takes seconds to open until the last test of a class."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, TypeVar

import pytest

T = TypeVar("T")
_OPENED = pytest.StashKey[dict[str, Any]]()


def kept(request: pytest.FixtureRequest, manager: AbstractContextManager[T]) -> T:
    """Enter a manager for the first test of a class that asks for this fixture, and return what that gave to others.

    A fixture of scope 'class' would do the same, but what overrides one needs that scope too, and a fixture of that
    scope is not a method of a class in later versions of pytest.
    """
    owner, name = request.node.getparent(pytest.Class), str(request.fixturename)
    opened = owner.stash.setdefault(_OPENED, {})
    if name not in opened:
        opened[name] = manager.__enter__()

        def close() -> None:
            del opened[name]
            manager.__exit__(None, None, None)

        owner.addfinalizer(close)
    found: T = opened[name]
    return found
