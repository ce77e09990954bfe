"""A search that came to its end, for every test that looks at what it left."""

from __future__ import annotations

from pathlib import Path

import pytest

from .tuning import SPACE, Finished, tune, workplace


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return workplace(tmp_path)


@pytest.fixture(scope="package")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """A search over three configs, one of which fails, that came to its end."""
    folder = workplace(tmp_path_factory.mktemp("finished"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KERNELWRIGHT_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))
        run = tune(*SPACE, "--tuner", "grid", "--plot", "--json", cwd=folder)
    return folder, run
