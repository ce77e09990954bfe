"""What is installed is locked: each package by its version and the hashes of its files."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
BUILT_BY_MACHINE = {"torch", "triton"}
"""A CPU's build of torch and a GPU's have one version and different files, and the latter brings Triton."""
LOCKED = {"setup.txt": [], "all.txt": list(PROJECT["optional-dependencies"])}
"""Files, and the extras that each has."""


def pins(path: Path) -> dict[str, tuple[str, list[str]]]:
    """The version of each package in a file, and its hashes."""
    found = {}
    for line in path.read_text().replace("\\\n", " ").splitlines():
        if line and not line.startswith("#"):
            pin, *hashes = shlex.split(line)
            name, version = pin.split("==")
            found[canonicalize_name(name)] = (version, [text.removeprefix("--hash=sha256:") for text in hashes])
    return found


CONSTRAINTS = pins(ROOT / "constraints.txt")


def wanted(requirements: list[str], extras: set[str]) -> Iterator[Requirement]:
    """Requirements that hold here with some extras."""
    for text in requirements:
        requirement = Requirement(text)
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            yield requirement


def needed(extras: list[str]) -> Iterator[Requirement]:
    """What the project needs, and what that needs in turn, of packages that are installed here."""
    texts = [*PROJECT["dependencies"], *(text for extra in extras for text in PROJECT["optional-dependencies"][extra])]
    left, seen = list(wanted(texts, set())), set()
    while left:
        requirement = left.pop()
        if requirement.name == "kernelwright" or (requirement.name, *requirement.extras) in seen:
            continue
        seen.add((requirement.name, *requirement.extras))
        yield requirement
        try:
            left += wanted(requires(requirement.name) or [], requirement.extras)
        except PackageNotFoundError:
            continue


@pytest.mark.parametrize("name", LOCKED)
def test_each_file_of_a_package_has_its_hash(name: str) -> None:
    for package, (version, hashes) in pins(ROOT / "requirements" / name).items():
        assert hashes and all(re.fullmatch("[0-9a-f]{64}", text) for text in hashes), package
        assert CONSTRAINTS[package] == (version, []), package


@pytest.mark.parametrize("name", LOCKED)
def test_whatever_is_needed_is_locked(name: str) -> None:
    """They are installed without looking for what they need."""
    locked = pins(ROOT / "requirements" / name)
    for requirement in needed(LOCKED[name]):
        package = canonicalize_name(requirement.name)
        assert package in locked or package in BUILT_BY_MACHINE, package
        assert requirement.specifier.contains(CONSTRAINTS[package][0]), requirement
    assert "setuptools" in locked, "which builds kernelwright"


def test_all_else_is_locked() -> None:
    assert set(CONSTRAINTS) == set(pins(ROOT / "requirements" / "all.txt")) | BUILT_BY_MACHINE


def test_the_makefile_installs_nothing_else() -> None:
    text = (ROOT / "Makefile").read_text()
    assert text.count("pip install") == 1
    uses = [line for line in text.splitlines() if "$(INSTALL)" in line]
    assert all("--require-hashes" in line or "-c constraints.txt" in line for line in uses) and len(uses) == 2
