"""Every path of a call is inside the server's folder, links resolved."""

from __future__ import annotations

from pathlib import Path

import pytest
from kernelwright.core import OptionError
from kernelwright.mcp_server.places import Root

from ..conftest import SCALE_KERNEL, SCALE_PROBLEM


@pytest.fixture
def root(tmp_path: Path) -> Root:
    folder = tmp_path / "root"
    (folder / "kernels").mkdir(parents=True)
    (folder / "kernels" / "scale.py").write_text(SCALE_KERNEL)
    (tmp_path / "secret.py").write_text(SCALE_KERNEL)
    (tmp_path / "outside").mkdir()
    (folder / "link.py").symlink_to(tmp_path / "secret.py")
    (folder / "folder").symlink_to(tmp_path / "outside")
    return Root(folder)


def test_a_file_inside(root: Root) -> None:
    inside = str(root.folder / "kernels" / "scale.py")
    assert root.reference("kernels/scale.py", "kernel") == inside
    assert root.reference(inside, "kernel") == inside
    assert root.reference("kernels/../kernels/scale.py", "kernel") == inside
    assert root.reference("kernels/scale.py::f", "kernel") == f"{inside}::f"
    assert root.shown(inside) == "kernels/scale.py"


@pytest.mark.parametrize("text", ["level1/1_23", "1_23", "23_Softmax", "level1/1_23.py"])
def test_a_shipped_name_stays_a_name(root: Root, text: str) -> None:
    assert root.reference(text, "kernel") == text


@pytest.mark.parametrize(
    "text", ["../secret.py", "/etc/passwd", "link.py", "kernels/../../secret.py", "../secret.py::f"]
)
def test_outside(root: Root, text: str) -> None:
    with pytest.raises(OptionError, match=r"`kernel` \S+ is outside of .*; the server works in that folder only"):
        root.reference(text, "kernel")


def test_a_folder_outside(root: Root) -> None:
    with pytest.raises(OptionError, match="is outside of"):
        root.directory("folder", "folder")


@pytest.mark.parametrize("text", ["kernels/none.py::f", "x\0y::f", "/" + "x" * 5000])
def test_no_file(root: Root, text: str) -> None:
    with pytest.raises(OptionError, match=r"there is no file|is not a path|outside"):
        root.reference(text, "kernel")


@pytest.mark.parametrize("named", ["../secret.py", "/etc/passwd"])
def test_a_kernel_that_names_a_problem_outside(root: Root, named: str) -> None:
    path = root.folder / "kernels" / "named.py"
    path.write_text(f'"""Scales.\n\nProblem Name: {named}\n"""\n{SCALE_KERNEL}')
    with pytest.raises(OptionError, match=r"`problem` \S+ is outside of"):
        root.problem_of(str(path), None)
    with pytest.raises(OptionError, match=r"`problem` \S+ is outside of"):
        root.check_kernels(root.folder / "kernels")
    assert root.problem_of(str(path), "1_23") == "1_23"


def test_a_problem_in_a_folder_of_kernels_is_none_of_them(root: Root) -> None:
    (root.folder / "kernels" / "999_Scale.py").write_text(SCALE_PROBLEM)
    root.check_kernels(root.folder / "kernels")
    assert root.problem_of(str(root.folder / "kernels" / "999_Scale.py"), None) is None


def test_a_folder_of_kernels_with_a_link_outside(root: Root) -> None:
    with pytest.raises(OptionError, match="is outside of"):
        root.check_kernels(root.folder)
    root.check_kernels(root.folder / "kernels")
