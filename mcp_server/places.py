"""Confinement: every path of a call lies in the folder that the server was started for."""

from __future__ import annotations

import os
from pathlib import Path

from ..api.jobs import named_problem
from ..core import OptionError

SEPARATOR = "::"


class Root:
    """The folder of the server. All methods raise `OptionError` for what lies outside, links resolved."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()

    def path(self, text: str, name: str) -> Path:
        """The resolved path of a text, relative to the folder; `name` is the argument's, for the message."""
        try:
            path = (self.folder / text).resolve()
        except (OSError, ValueError, RuntimeError):  # too long, a null byte, a circle of links
            raise OptionError(f"`{name}` {text!r} is no path") from None
        if not path.is_relative_to(self.folder):
            raise OptionError(f"`{name}` {text} is outside of {self.folder}", "the server works in that folder only")
        return path

    def file(self, text: str, name: str) -> Path:
        """A file that is there."""
        path = self.path(text, name)
        if not path.is_file():
            raise OptionError(f"`{name}`: there is no file {text} in {self.folder}")
        return path

    def directory(self, text: str, name: str) -> Path:
        """A folder that is there."""
        path = self.path(text, name)
        if not path.is_dir():
            raise OptionError(f"`{name}`: there is no folder {text} in {self.folder}")
        return path

    def reference(self, text: str, name: str) -> str:
        """A kernel or a problem: a file's absolute path, a function's, or what is shipped, by its name.

        What is no file here cannot become one: jobs run in an empty folder.
        """
        where, mark, function = text.partition(SEPARATOR)
        if mark:
            return f"{self.file(where, name)}{SEPARATOR}{function}"
        path = self.folder / text
        is_path = Path(text).is_absolute() or ".." in Path(text).parts
        if is_path or (os.path.lexists(path) and not path.is_dir()):
            return str(self.file(text, name))
        return text

    def target(self, text: str, name: str) -> str:
        """A function `FILE::NAME`, or a file such as one of shapes."""
        where, mark, function = text.partition(SEPARATOR)
        return f"{self.file(where, name)}{mark}{function}"

    def problem_of(self, kernel: str, given: str | None) -> str | None:
        """The problem of a kernel as `reference` returned it; None where the kernel decides.

        A kernel file may name its problem itself, by a path too, which is confined as well.
        """
        if given is not None:
            return self.reference(given, "problem")
        if SEPARATOR in kernel or not Path(kernel).is_absolute():
            return None
        named = named_problem(Path(kernel))
        return None if named is None else self.reference(named, "problem")

    def check_kernels(self, folder: Path) -> None:
        """Each Python file below a folder, and the problem that it names, are inside too."""
        for path in folder.rglob("*.py"):
            self.problem_of(self.reference(str(path), "folder"), None)

    def shown(self, path: Path | str) -> str:
        """A path inside, relative to the folder."""
        return str(Path(path).resolve().relative_to(self.folder))
