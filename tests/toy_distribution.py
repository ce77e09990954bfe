"""The distribution in `toy/` as a package manager leaves it: the package, with metadata that setuptools writes."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

TOY = Path(__file__).with_name("toy")
METADATA = "from setuptools import build_meta; build_meta.prepare_metadata_for_build_wheel('.')"


def write_metadata(site: Path) -> None:
    """What its `pyproject.toml` declares becomes metadata, as when it is installed."""
    subprocess.run([sys.executable, "-c", METADATA], cwd=site, check=True, capture_output=True, timeout=120)
    for folder in site.glob("*.egg-info"):
        shutil.rmtree(folder)


@contextlib.contextmanager
def installed(site: Path) -> Iterator[Path]:
    """A folder is searched for packages by this process and those that it starts."""
    before = set(sys.modules)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(site))
        patch.setenv("PYTHONPATH", os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")]))
        yield site
    names = {path.stem for path in site.iterdir()}
    for name in set(sys.modules) - before:
        if name.partition(".")[0] in names:
            del sys.modules[name]


@pytest.fixture(scope="session")
def toy_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with it, such as a site-packages."""
    site = tmp_path_factory.mktemp("toy") / "site"
    shutil.copytree(TOY, site, ignore=shutil.ignore_patterns("__pycache__"))
    write_metadata(site)
    return site


@pytest.fixture(scope="class")
def toy(toy_site: Path) -> Iterator[Path]:
    """It is installed."""
    with installed(toy_site):
        yield toy_site


def broken_site(folder: Path, group: str, entries: Mapping[str, str], modules: Mapping[str, str]) -> Path:
    """A folder with a package called 'broken', which has these entry points and modules."""
    metadata = folder / "broken-0.1.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 0.1\n")
    lines = [f"{name} = {value}" for name, value in entries.items()]
    (metadata / "entry_points.txt").write_text("\n".join([f"[{group}]", *lines, ""]))
    for name, source in modules.items():
        (folder / f"{name}.py").write_text(source)
    return folder
