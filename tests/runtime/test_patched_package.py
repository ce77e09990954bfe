"""A patch is offered only where the package with its changes can be imported afresh, and passes the check again."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path

import pytest
from kernelwright.core import KernelError
from kernelwright.core.user_package import read_module
from kernelwright.corpus.functions.patched import require_correct
from kernelwright.corpus.functions.translation import UserFunction
from kernelwright.evaluators.local import LocalEvaluator
from kernelwright.evaluators.sandbox import landlock
from kernelwright.evaluators.settings import Sandbox, Settings
from kernelwright.evaluators.workers.patched_package import with_texts_in_place
from kernelwright.runtime.evaluators import at_workloads

from ..user_packages import RMS_NORM, SWIGLU


def checked(function: UserFunction, changes: dict[str, tuple[str, str]], sandbox: Sandbox = Sandbox.NONE) -> None:
    """Check a function once more, with changed texts of the files of these names."""
    files = {}
    for module in function.package.modules:
        if module.path.name in changes:
            before, after = changes[module.path.name]
            assert before in module.text
            files[module.path] = module.text.replace(before, after)
    assert len(files) == len(changes)
    with contextlib.ExitStack() as stack:
        evaluator = at_workloads(lambda: LocalEvaluator("cpu", Settings(sandbox=sandbox)), stack)
        require_correct(function, function.problem, evaluator, files)
    assert all(read_module(module.path) == module.text for module in function.package.modules), "it was changed"


IN_TWO_FILES = {
    "kernels.py": ("from .activations", "PATCHED = True\nfrom .activations"),
    "ops.py": ("import torch\n", "import torch\n\nfrom .kernels import PATCHED\n"),
}
"""The second file can be imported only where the first one is changed, too."""


@pytest.mark.parametrize("sandbox", [Sandbox.NONE, pytest.param(Sandbox.LANDLOCK, marks=pytest.mark.slow)])
def test_changes_of_several_files_are_seen_together(tmp_path: Path, sandbox: Sandbox) -> None:
    if sandbox is Sandbox.LANDLOCK and not landlock.abi():
        pytest.skip("there is no Landlock")
    function = SWIGLU.translated(SWIGLU.copied(tmp_path))
    checked(function, IN_TWO_FILES, sandbox)


@pytest.mark.parametrize(
    ("file", "before", "after", "said"),
    [
        (
            "rms_norm.py",
            "import torch\n",
            "import torch\nfrom . import gone\n",
            "ImportError: cannot import name 'gone'",
        ),
        ("rms_norm.py", "torch.empty_like(x)", "torch.zeros_like(x)[:1]", "fails its check: "),
    ],
)
def test_a_patch_that_breaks_the_package_is_refused_with_the_reason(
    tmp_path: Path, file: str, before: str, after: str, said: str
) -> None:
    function = RMS_NORM.translated(RMS_NORM.copied(tmp_path))
    with pytest.raises(
        KernelError, match=r"no patch is written, since .* the changed rownorm/ops/rms_norm\.py"
    ) as refused:
        checked(function, {file: (before, after)})
    assert said in str(refused.value)


def test_only_what_changes_is_copied(tmp_path: Path) -> None:
    package = SWIGLU.translated(SWIGLU.copied(tmp_path)).package
    first, *others = package.modules
    changed = replace(package, modules=(replace(first, text="CHANGED = 1\n"), *others), patched=True)
    (folder := tmp_path / "place").mkdir()
    placed = with_texts_in_place(changed, folder)
    assert placed.modules[0].path.read_text() == "CHANGED = 1\n"
    assert [read_module(item.path) for item in placed.modules[1:]] == [item.text for item in others]
    copied = [path for path in folder.rglob("*.py") if not path.is_symlink()]
    assert copied == [placed.modules[0].path]
    assert with_texts_in_place(changed, folder) == placed
    assert with_texts_in_place(package, folder) is package
