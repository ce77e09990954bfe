"""Modules that are no files yet: texts by path, such as the sources of a record."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ...core import KernelError


class Texts:
    """Texts by their paths from the folder that is imported from; what is in none of them is a library."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = {Path(path): text for path, text in texts.items()}
        self._paths = {self.dotted(path): path for path in self._texts if path.suffix == ".py"}

    @property
    def packages(self) -> list[str]:
        """The names under which they are imported."""
        return [name.partition(".")[0] for name in self._paths]

    def dotted(self, path: Path) -> str:
        """Return the name under which one of the files is imported."""
        parts = path.with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    def owns(self, name: str) -> bool:
        """Return whether an absolute import of this name is one of the files.

        A folder alone is none: `triton/main.py` does not hide Triton.
        """
        parts = name.split(".")
        return any(".".join(parts[: end + 1]) in self._paths for end in range(len(parts)))

    def exists(self, name: str) -> bool:
        """Return whether there is a module of this name."""
        return name in self._paths or self._is_folder(name)

    def file(self, name: str) -> Path | None:
        """Return the file of a module; None for a folder without an `__init__.py`. Raises `KernelError` for neither."""
        if not self.exists(name):
            raise KernelError(f"there is no file of the module {name}; there are {', '.join(map(str, self._texts))}")
        return self._paths.get(name)

    def text(self, path: Path) -> str:
        """Return the text of a file."""
        return self._texts[path]

    def _is_folder(self, name: str) -> bool:
        return any(not name or other.startswith(f"{name}.") for other in self._paths)
