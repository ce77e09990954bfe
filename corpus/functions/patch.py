"""A result for a user's function as a patch of its files: a unified diff that applies with `git apply`."""

from __future__ import annotations

import difflib
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from ...core import Config, Evaluator, KernelError, PythonKernel, TorchProblem
from ...core.file_locks import temporary_folder
from ...core.files import write_whole
from .constant_places import PlaceKey
from .patched import require_correct
from .putting_back import put_back
from .size_choices import PlaceValue
from .translation import UserFunction


def write_patch(
    path: Path,
    function: UserFunction,
    kernel: PythonKernel,
    configs: Sequence[Config],
    evaluator: Evaluator | None = None,
    problem: TorchProblem | None = None,
    by_place: Mapping[PlaceKey, PlaceValue] | None = None,
) -> dict[Path, str]:
    """Write the patch for a kernel made from the function; return the new texts of the files that it changes.

    It is first tried on copies of the files, and the `evaluator` checks the patched package at the problem's workloads,
    by default all. Raises `KernelError` if the result cannot be mapped to the user's files, if these have changed since
    they were read, or if the check fails.
    """
    files = put_back(function, kernel, configs, by_place)
    root = _root(function.target.path, function.target.place.folder)
    text = "".join(_diff(file.relative_to(root).as_posix(), file, new) for file, new in files.items())
    _try(text, root, files)
    if files and evaluator is not None:
        require_correct(function, problem or function.problem, evaluator, files)
    write_whole(path, text, "choose another `patch`")
    return files


def _root(path: Path, imported_from: Path) -> Path:
    """Return the root of a file's work tree; without one, the folder that its package is imported from."""
    return next((folder for folder in path.parents if (folder / ".git").exists()), imported_from)


def _diff(name: str, file: Path, after: str) -> str:
    before = file.read_bytes().decode()  # with its own ends of lines
    lines = difflib.unified_diff(_lines(before), _lines(after, before), f"a/{name}", f"b/{name}")
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def _lines(text: str, like: str = "") -> list[str]:
    """Split at newlines only, as git does; with `\\r\\n` between the lines where another text has them."""
    if "\r\n" in like:
        text = text.replace("\n", "\r\n")
    parts = text.split("\n")
    return [f"{part}\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


def _try(text: str, root: Path, files: Mapping[Path, str]) -> None:
    """Apply the patch to copies of the files, if git is installed."""
    git = shutil.which("git")
    if git is None or not text:
        return
    with temporary_folder("kernelwright-patch-") as folder:
        for file in files:
            copy = folder / file.relative_to(root)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, copy)
        # Outside of a work tree, whatever surrounds the temporary folder.
        environment = {"GIT_CEILING_DIRECTORIES": str(folder.parent), "PATH": str(Path(git).parent)}
        command = [git, "apply", "-"]
        run = subprocess.run(command, input=text.encode(), cwd=folder, env=environment, capture_output=True)
        for file, new in files.items():
            copy = folder / file.relative_to(root)
            if run.returncode != 0 or copy.read_text() != new:
                why = run.stderr.decode().strip().splitlines()
                raise KernelError(f"the patch of {file} does not apply ({why[0] if why else 'with another result'})")
