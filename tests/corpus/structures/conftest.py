"""What becomes of the problems of each module of tests."""

from __future__ import annotations

import pytest

from .cases import Made, made


@pytest.fixture(scope="module")
def results(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Made]:
    """By name, what became of the module's `PROBLEMS`: made, run and compiled once for all of its tests."""
    name = request.module.__name__.rpartition("_")[2]
    return made(tmp_path_factory.mktemp(name), request.module.PROBLEMS)
