"""Where the modules of some packages lie."""

from __future__ import annotations

from pathlib import Path

from ...core import KernelError

COMPILED = (".so", ".pyd")


class Roots:
    """The folders of the packages that some files are in.

    A package is the outermost folder with an `__init__.py` above a file; of a file in no package, its folder's files
    count as one.
    """

    def __init__(self, *paths: Path) -> None:
        """`paths` are the files of what is asked for, the kernel's first."""
        self._roots = list(dict.fromkeys(_root_of(path) for path in paths))

    @property
    def packages(self) -> list[str]:
        """The packages' names."""
        return [root for _, root in self._roots if root]

    def dotted(self, path: Path) -> str:
        """Return the name under which one of the files is imported."""
        parts = list(path.relative_to(_root_of(path)[0]).with_suffix("").parts)
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    def owns(self, name: str) -> bool:
        """Return whether an absolute import of this name is one of the package."""
        first = name.partition(".")[0]
        beside = [folder / first for folder, root in self._roots if not root]
        files = [item for path in beside for item in (path.with_suffix(".py"), path / "__init__.py")]
        return first in self.packages or any(path.is_file() for path in files)

    def exists(self, name: str) -> bool:
        """Return whether there is a module of this name, in Python or compiled."""
        return self._file(name) is not None or self._compiled(name) is not None or self._is_folder(name)

    def file(self, name: str) -> Path | None:
        """Return the file of a module; None for a folder without an `__init__.py`.

        Raises `KernelError` for a compiled module, and where there is none.
        """
        path = self._file(name)
        if path is None and (compiled := self._compiled(name)) is not None:
            raise KernelError(f"module {name} is compiled ({compiled}), so it has no source that could be inlined")
        if path is None and not self._is_folder(name):
            raise KernelError(f"the package has no module {name}, in {' or '.join(map(str, self._folders(name)))}")
        return path

    def text(self, path: Path) -> str:
        """Return the text of a file; raises `OSError` or `UnicodeDecodeError`."""
        return path.read_text()

    def _folders(self, name: str) -> list[Path]:
        """Return where a module may be, without its ending."""
        first, *rest = name.split(".")
        return [folder.joinpath(first, *rest) for folder, root in self._roots if not root or first in (root, "")]

    def _is_folder(self, name: str) -> bool:
        return any(folder.is_dir() for folder in self._folders(name))

    def _file(self, name: str) -> Path | None:
        places = [(folder.with_name(f"{folder.name}.py"), folder / "__init__.py") for folder in self._folders(name)]
        return next((path for pair in places for path in pair if path.is_file()), None)

    def _compiled(self, name: str) -> Path | None:
        found = [
            path
            for folder in self._folders(name)
            if folder.parent.is_dir()
            for path in folder.parent.glob(f"{folder.name}.*")
        ]
        return next((path for path in found if path.suffix in COMPILED), None)


def _root_of(path: Path) -> tuple[Path, str]:
    """Return the folder that has to be on `sys.path` for a file to be imported, and its package's name there."""
    folder = path.parent
    while (folder / "__init__.py").exists():
        folder = folder.parent
    return folder, path.relative_to(folder).parts[0] if folder != path.parent else ""
