"""What a root package makes easy to get wrong."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import distributions
from pathlib import Path

import kernelwright
import pytest

from .slow import SLOW

ROOT = Path(__file__).parents[1]
BUILT = """
import json
import sys
from setuptools.dist import Distribution
made = Distribution({"script_name": "setup.py"})
made.parse_config_files()
made.get_command_obj("egg_info").egg_base = sys.argv[1]
build = made.get_command_obj("build_py")
build.ensure_finalized()
print(json.dumps(build.get_outputs(include_bytecode=False)))
"""
"""Asks the build backend which files a wheel gets, without making one."""
COPIED = ("tests", "results", "benchmarks", "notebooks", ".*", "build", "*.egg-info", "__pycache__")
"""What a copy of the checkout for a build leaves out."""
NO_PACKAGES = {"tests", "benchmarks", "docs", "results", "build"}


def test_every_sub_package_is_listed() -> None:
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    found = {"kernelwright"}
    for init in ROOT.glob("*/**/__init__.py"):
        parts = init.parent.relative_to(ROOT).parts
        if parts[0] not in NO_PACKAGES and not parts[0].startswith("."):
            found.add(".".join(("kernelwright", *parts)))
    assert sorted(listed) == sorted(found)


def test_every_slow_test_is_there() -> None:
    for file, _, name in (entry.partition("::") for entry in SLOW):
        path = ROOT / "tests" / file
        assert path.exists() and re.search(rf"\b(def|class) {name}\(", path.read_text() if name else "def ("), file


def test_the_readme_lists_every_extra_of_users() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    table = (ROOT / "README.md").read_text().partition("## Install")[2].partition("\n\n    kernelwright ")[0]
    rows = [row.split(" | ")[0] for row in table.splitlines() if row.startswith("| `")]
    listed = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert sorted([*listed, "dev", "docs"]) == sorted(extras)


def test_every_package_is_searched_for_dead_code() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    folders = {name.split(".")[1] for name in settings["setuptools"]["packages"] if "." in name}
    assert folders <= set(settings["vulture"]["paths"])


def test_the_root_imports_nothing_but_the_reader_of_entry_points() -> None:
    program = (
        "import sys, kernelwright; getattr(kernelwright, 'no_such_name', None)\n"
        "print([n for n in sys.modules if n.startswith('kernelwright.')])"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "['kernelwright.entry_points']"


def test_everything_that_the_root_exports_is_there() -> None:
    for name in kernelwright.__all__:
        assert getattr(kernelwright, name).__name__ == name
    assert "config" not in kernelwright.__all__
    assert kernelwright.config.__name__ == "config", "each module of commands/ is a function"
    with pytest.raises(AttributeError, match="no attribute 'optimise'"):
        kernelwright.__getattr__("optimise")


def test_core_imports_no_heavy_library() -> None:
    for path in (ROOT / "core").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            modules += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            assert not {"torch", "tilelang", "triton", "libcst"} & {module.split(".")[0] for module in modules}, path


def test_problems_kernels_and_examples_are_packaged() -> None:
    data = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    patterns = data["kernelwright.corpus"]
    packaged = {path for pattern in patterns for path in (ROOT / "corpus").glob(pattern) if path.is_file()}
    folders = [ROOT / "corpus" / folder for folder in ("problems", "kernels", "examples")]
    data_files = {
        path for folder in folders for suffix in ("py", "toml", "json") for path in folder.rglob(f"*.{suffix}")
    }
    assert packaged == data_files


def test_prompts_and_templates_are_packaged() -> None:
    data = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    for package, kind in (("prompts", "*.md"), ("commands/templates", "*")):
        patterns = data[f"kernelwright.{package.partition('/')[0]}"]
        root = ROOT / package.partition("/")[0]
        packaged = {path for pattern in patterns for path in root.glob(pattern)}
        assert packaged >= {path for path in (ROOT / package).rglob(kind) if path.is_file()}


def test_a_wheel_holds_every_file_of_the_package(tmp_path: Path) -> None:
    """Templates, prompts, guides, problems, kernels and examples too: outside the checkout there is nothing else."""
    command = [sys.executable, "-c", BUILT, str(tmp_path)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    packed = {path.partition("build/lib/kernelwright/")[2] for path in json.loads(run.stdout.splitlines()[-1])}
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    folders = {name.split(".")[1] for name in listed if "." in name}
    files = {path for folder in folders for path in (ROOT / folder).rglob("*") if path.is_file()}
    ours = {path.relative_to(ROOT).as_posix() for path in files if "__pycache__" not in path.parts}
    shipped = (ROOT / "docs").glob("*.md"), (ROOT / "docs" / "skill").glob("*.md")
    pages = {path.relative_to(ROOT).as_posix() for paths in shipped for path in paths}
    modules = {"__init__.py", "__main__.py", "entry_points.py", "events.py", "python_api.py", "remote.py"}
    assert ours | modules | pages | {"py.typed"} == packed
    for item in (
        "commands/templates",
        "prompts/guides",
        "corpus/examples/measured.json",
        "corpus/kernels/triton/level1",
    ):
        assert any(path.startswith(item) for path in packed), item


def test_a_wheel_works_away_from_the_checkout(tmp_path: Path) -> None:
    """Its metadata has authors and classifiers, type checkers find its types, and it has a kernel and a page."""
    shutil.copytree(ROOT, tmp_path / "checkout", ignore=shutil.ignore_patterns(*COPIED))
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
    build = [*pip, "-w", "wheel", "./checkout"]
    subprocess.run(build, cwd=tmp_path, check=True, capture_output=True, timeout=200)
    (wheel,) = (tmp_path / "wheel").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
    (found,) = distributions(name="kernelwright", path=[str(tmp_path / "installed")])
    assert found.metadata["Author"] and found.metadata["Keywords"]
    assert {point.name for point in found.entry_points.select(group="console_scripts")} == {"kernelwright", "optimize"}
    assert (tmp_path / "installed" / "kernelwright" / "py.typed").is_file()
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "installed")}
    for arguments, says in (
        (["-c", "import kernelwright; print(kernelwright.__file__)"], str(tmp_path / "installed")),
        (["-m", "kernelwright", "docs", "timing"], "# Timing"),
        (["-m", "kernelwright", "evaluate", "--kernel", "1_19", "--device", "cpu", "--dry-run"], "level1/1_19"),
    ):
        run = subprocess.run(
            [sys.executable, *arguments], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert run.returncode == 0 and says in run.stdout, run.stdout + run.stderr
