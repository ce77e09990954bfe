"""A result as a change of the user's own files: a unified diff that applies with `git apply`."""

from __future__ import annotations

import difflib
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..core import Config, Evaluation, KernelError, PythonKernel
from ..core.files import write_whole
from ..core.workload_rows import MOST_LOST, time_at, workloads_by_key
from ..corpus.functions.putting_back import put_back
from ..corpus.functions.translation import UserFunction


def write_patch(path: Path, function: UserFunction, kernel: PythonKernel, configs: Sequence[Config]) -> dict[Path, str]:
    """Write the patch for a kernel that was made of the function; return the new texts of the files that it changes.

    It is tried on copies of the files first. Raises `KernelError` where a result has no place in the user's files, and
    where these have changed since they were read.
    """
    files = put_back(function, kernel, configs)
    root = _root(function.target.path)
    text = "".join(_diff(file.relative_to(root).as_posix(), file, new) for file, new in files.items())
    _try(text, root, files)
    write_whole(path, text, "choose another `patch`")
    return files


def worthwhile(best: Evaluation, evaluations: Sequence[Evaluation], keys: Mapping[str, str]) -> list[Config]:
    """Return the configs that an autotuner should choose from: the best one, and what is faster at some workloads.

    An autotuner chooses one config for all workloads with the same of `keys`. A config counts only where it is faster
    there by more than noise.
    """
    found = [Config(best.config)]
    for names in workloads_by_key(keys):
        times = {
            Config(evaluation.config): time
            for evaluation in evaluations
            if (time := time_at(evaluation, names)) is not None
        }
        own = times.get(Config(best.config), time_at(best, names))
        config = min(times, key=lambda one: times[one], default=None)
        if config is not None and own is not None and times[config] < (1 - MOST_LOST) * own:
            found.append(config)
    return list(dict.fromkeys(found))


def undeclared(configs: Sequence[Config], declared: Sequence[Config]) -> list[Config]:
    """Return the configs that are none of the user's own."""
    return [config for config in configs if not any(_agrees(config, own) for own in declared)]


def untried(declared: Sequence[Config], evaluations: Sequence[Evaluation]) -> list[Config]:
    """Return the user's own configs that were not measured: an autotuner may find one of them faster."""
    return [
        item
        for item in declared
        if not any(_agrees(item, Config(other.config)) for other in evaluations if other.config)
    ]


def _agrees(one: Config, other: Config) -> bool:
    """Return whether `one` has the values that `other` names."""
    return all(one.get(name) == value for name, value in other.items())


def _root(path: Path) -> Path:
    """Return the top of the work tree that a file is in; outside of one, the folder that its package is in."""
    for folder in path.parents:
        if (folder / ".git").exists():
            return folder
    folder = path.parent
    while (folder / "__init__.py").exists():
        folder = folder.parent
    return folder


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
    """Apply the patch to copies of the files, where there is git."""
    git = shutil.which("git")
    if git is None or not text:
        return
    with tempfile.TemporaryDirectory(prefix="kernelwright-patch-") as folder:
        for file in files:
            copy = Path(folder, file.relative_to(root))
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, copy)
        # Outside of a work tree, whatever surrounds the temporary folder.
        environment = {"GIT_CEILING_DIRECTORIES": str(Path(folder).parent), "PATH": str(Path(git).parent)}
        command = [git, "apply", "-"]
        run = subprocess.run(command, input=text.encode(), cwd=folder, env=environment, capture_output=True)
        for file, new in files.items():
            copy = Path(folder, file.relative_to(root))
            if run.returncode != 0 or copy.read_text() != new:
                why = run.stderr.decode().strip().splitlines()
                raise KernelError(f"the patch of {file} does not apply ({why[0] if why else 'with another result'})")
