"""An entry of the store as a package of a deployed operator, written to the cache and imported."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ...core import ResultsError
from ...core.files import cache_folder
from .store import StoredRegion

if TYPE_CHECKING:
    from ..package.operators import DeployedOperator

MODULES = Path(__file__).parents[1] / "package"
"""The modules that every deployed package has."""
_INIT = '''"""An entry of kernelwright's store, as an operator."""

from pathlib import Path

from .checks import compare
from .operators import DeployedOperator

OPERATOR = DeployedOperator(__name__, Path(__file__).parent)


def verify():
    """Compare the operator with its reference."""
    return compare(OPERATOR, OPERATOR)
'''


def package_name(entry_name: str) -> str:
    """Return the name of an entry's package, from its name in the store."""
    return f"kernelwright_region_{entry_name.partition('-')[2][:16]}"


def package_files(entry: StoredRegion) -> dict[str, str]:
    """Return the texts of an entry's package, by path."""
    files = {path.name: path.read_text() for path in sorted(MODULES.glob("*.py")) if path.name != "__init__.py"}
    files |= {f"kernels/{name}.py": source for name, source in entry.kernels.items()}
    return files | {
        "kernels/__init__.py": '"""The kernels, as they were measured."""\n',
        "__init__.py": _INIT,
        "reference.py": entry.problem,
        "table.json": json.dumps(entry.table, indent=1) + "\n",
    }


def write_package(entry: StoredRegion, folder: Path) -> None:
    """Write an entry's package into a new folder. Raises `OSError`."""
    for name, text in package_files(entry).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def load_operator(entry: StoredRegion, name: str) -> DeployedOperator:
    """Return the operator of an entry of this name, with its kernels' files in the cache.

    Raises `ResultsError` if they cannot be written, and whatever importing them raises.
    """
    package = package_name(name)
    if package not in sys.modules:
        folder = cache_folder() / "regions" / package
        if not _is_there(entry, folder):
            _write_beside(entry, folder)
        _import(package, folder)
    module: Any = sys.modules[package]
    operator: DeployedOperator = module.OPERATOR
    return operator


def _is_there(entry: StoredRegion, folder: Path) -> bool:
    try:
        return all((folder / name).read_text() == text for name, text in package_files(entry).items())
    except (OSError, UnicodeDecodeError):
        return False


def _write_beside(entry: StoredRegion, folder: Path) -> None:
    """Write a package and move it to its place, since another process may do the same at the same time."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".region-", dir=folder.parent) as beside:
            staged = Path(beside) / "package"
            write_package(entry, staged)
            if folder.exists() and not _is_there(entry, folder):
                folder.rename(Path(beside) / "before")
            try:
                os.replace(staged, folder)
            except OSError:
                if not _is_there(entry, folder):
                    raise
    except OSError as error:
        advice = "free space there, or set KERNELWRIGHT_CACHE to another folder"
        raise ResultsError(f"cannot write {folder}: {error.strerror}; {advice}") from None


def _import(package: str, folder: Path) -> None:
    spec = importlib.util.spec_from_file_location(
        package, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None and spec.loader is not None
    module: ModuleType = importlib.util.module_from_spec(spec)
    sys.modules[package] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[package]
        raise
