"""An archive of the parts of public packages that their functions need, for a machine without network.

    python benchmarks/real_function_archive.py --folder DIR --to FILE.tar.xz [--python 3.12] [--package NAME]

The functions of real_functions/functions.yaml are called in Triton's interpreter; which files that opens is noted.
With these go, as far as texts tell, the modules that are imported on a GPU alone, and by the functions' own files
within functions. Compiled
modules for another Python than this one are loaded from PyPI for that; libraries of CUDA code are left out. Unpacked,
the archive is a --folder for real_functions.py and real_function_times.py.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from command import run_benchmark
from kernelwright.core.syntax_tree import syntax_tree
from real_functions import CALL, Entry, Machine, entries_and_packages, installed

_TRACE = """
import os, runpy, sys
folder, log, script, *sys.argv[1:] = sys.argv[1:]
out = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
def note(event, arguments):
    if event == "open" and isinstance(arguments[0], str) and arguments[0].startswith(folder):
        os.write(out, (arguments[0] + "\\n").encode())
    elif event == "import" and arguments[1]:
        os.write(out, (arguments[1] + "\\n").encode())
sys.addaudithook(note)
sys.path.insert(0, os.path.dirname(script))
sys.argv[0] = script
runpy.run_path(script, run_name="__main__")
"""
MOST_BYTES = 4 << 20
"""Larger files are libraries of CUDA code."""
_COMPILED = re.compile(r"\.(cpython-\d+-[\w-]+|abi3)\.so$")


def opened(entries: Sequence[Entry], machine: Machine) -> set[Path]:
    """Return the files of a package's folder that calls of its functions open, sources in place of byte code."""
    folder = machine.folder / entries[0].package
    calls = [
        {"name": item.name, "function": item.function, "file": str(item.file), "reference": item.reference}
        | {"inputs": item.inputs, "sizes": item.small, "device": "cpu", "timeout_s": machine.timeout_s}
        for item in entries
    ]
    with tempfile.TemporaryDirectory() as temporary:
        log = Path(temporary, "opened.txt")
        for options in ((), ("--lift-limits",)):
            subprocess.run(
                [sys.executable, "-c", _TRACE, str(folder), str(log), str(CALL), *options],
                input=json.dumps(calls),
                env=machine.environment(entries[0]),
                cwd=machine.folder,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        found = {Path(os.path.normpath(line)) for line in log.read_text(errors="replace").splitlines()}
    return {source for path in found if path.is_relative_to(folder) and (source := _source(path)).is_file()}


def _source(path: Path) -> Path:
    if path.parent.name == "__pycache__":
        return path.parents[1] / f"{path.name.partition('.')[0]}.py"
    return path


def imported_later(files: set[Path], folder: Path, own: set[Path]) -> set[Path]:
    """Return what these files may import beyond each other, `own` ones within functions, too."""
    found = set[Path]()
    tops = {path.relative_to(folder).parts[0] for path in own}
    open_ = [
        (path, path in own) for path in files if path.suffix == ".py" and path.relative_to(folder).parts[0] in tops
    ]
    while open_:
        path, inner = open_.pop()
        for name in _imports(path, folder, inner):
            for there in _files_of(name, folder):
                if there not in found and there not in files:
                    found.add(there)
                    open_.append((there, False))
    return found


def _imports(path: Path, folder: Path, inner: bool) -> Iterator[str]:
    """Yield the modules that a file imports, on request within functions, too."""
    parts = path.relative_to(folder).with_suffix("").parts
    package = parts[:-1]
    open_: list[ast.AST] = [syntax_tree(path.read_text(errors="replace"))]
    while open_:
        node = open_.pop()
        if isinstance(node, ast.Import):
            yield from (item.name for item in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = [*package[: len(package) - node.level + 1]] if node.level else []
            base += node.module.split(".") if node.module else []
            yield ".".join(base)
            yield from (".".join([*base, item.name]) for item in node.names)
        elif inner or not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
                open_ += node.orelse
            else:
                open_ += ast.iter_child_nodes(node)


def _files_of(name: str, folder: Path) -> Iterator[Path]:
    """Yield the files that an import of a module executes."""
    at = folder
    for part in name.split("."):
        at = at / part
        for path in (at / "__init__.py", at.with_suffix(".py")):
            if path.is_file():
                yield path


def for_python(path: Path, folder: Path, python: str) -> tuple[Path, bytes] | None:
    """Return a compiled module as it is for another Python: its place and its contents; None where there is none."""
    relative = path.relative_to(folder).as_posix()
    for record in folder.glob("*.dist-info/RECORD"):
        if f"{relative}," not in record.read_text():
            continue
        name, _, version = record.parent.name.removesuffix(".dist-info").rpartition("-")
        target = folder.parent / f".python{python}" / name
        if not target.exists():
            command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--only-binary=:all:"]
            command += ["--python-version", python, "--target", str(target), f"{name}=={version}"]
            if subprocess.run(command).returncode:
                return None
        wanted = _COMPILED.sub("", relative)
        for other in target.rglob("*.so"):
            if _COMPILED.sub("", other.relative_to(target).as_posix()) == wanted:
                return Path(other.relative_to(target)), other.read_bytes()
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="where packages are installed")
    parser.add_argument("--to", type=Path, required=True, metavar="FILE")
    parser.add_argument("--python", default="", help="the version on the other machine, such as 3.12")
    parser.add_argument("--package", default="", help="this package alone")
    parser.add_argument("--timeout", type=float, default=60, help="seconds for a call")
    options = parser.parse_args()
    every, packages = entries_and_packages()
    machine = Machine(options.folder.absolute(), "cpu", options.timeout)
    with tarfile.open(options.to, "w:xz", preset=9) as archive:
        for name, package in packages.items():
            if options.package not in ("", name):
                continue
            entries = [item for item in every if item.package == name]
            folder = installed(name, package, machine.folder)
            files = opened(entries, machine)
            later = imported_later(files, folder, {folder / item.function.partition("::")[0] for item in entries})
            contents = {path.relative_to(folder): path for path in [*files, *later, folder / "installed.txt"]}
            whole = 0
            for place, path in sorted(contents.items()):
                data = path.read_bytes()
                if options.python and ".cpython-" in path.name:
                    other = for_python(path, folder, options.python)
                    if other is None:
                        print(f"{name}: {place} has no form for Python {options.python}", flush=True)
                        continue
                    place, data = other
                if len(data) > MOST_BYTES:
                    print(f"{name}: {place} is left out, {len(data) >> 20} MB", flush=True)
                    continue
                entry = tarfile.TarInfo(f"{name}/{place.as_posix()}")
                entry.size = len(data)
                archive.addfile(entry, io.BytesIO(data))
                whole += len(data)
            print(f"{name}: {len(contents)} files, {whole / 1e6:.1f} MB, {len(later)} imported later", flush=True)
    print(f"{options.to}: {options.to.stat().st_size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    run_benchmark(main)
