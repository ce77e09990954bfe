"""How a function is named, and what is not a function."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest
from kernelwright.core import OptionError
from kernelwright.corpus.functions.modules import Place
from kernelwright.corpus.functions.target import find_target, reference_to

from ...user_packages import PACKAGES, run_tests


def test_by_path_by_module_and_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    path = PACKAGES / "cpulinear" / "linear.py"
    assert find_target(f"{path}::linear_relu", "kernel").path == path
    monkeypatch.syspath_prepend(str(PACKAGES / "rownorm"))
    assert find_target("rownorm.ops.rms_norm::rms_norm", "kernel").path.name == "rms_norm.py"
    assert find_target(reference_to(run_tests, "kernel"), "kernel").name == "run_tests"


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("nowhere.py::f", "`kernel`: there is no file nowhere.py"),
        ("no.such.module::f", "`kernel`: there is no module no.such.module; give the path"),
        ("{linear}::linear_rele", "defines no function 'linear_rele'; the nearest are linear_relu"),
        ("{linear}::Class.method", "defines no function 'Class'"),
        ("{linear}::", "names no function; write it as path/to/ops.py::swiglu"),
    ],
)
def test_what_is_no_function_says_so(reference: str, said: str) -> None:
    with pytest.raises(OptionError) as caught:
        find_target(reference.format(linear=PACKAGES / "cpulinear" / "linear.py"), "kernel")
    assert said in str(caught.value)


@pytest.mark.parametrize("name", ["hidden", "Norm.f", "norm", "later", "other", "starred"])
def test_whatever_a_file_calls_so_is_named(tmp_path: Path, name: str) -> None:
    """Under a condition, a method, an assigned callable, an import, a name that comes with a star."""
    path = tmp_path / "ops.py"
    path.write_text(
        "from .mlp import swiglu as other\nfrom .mlp import *\nif other:\n    def hidden(x): ...\n"
        "class Norm:\n    def f(self): ...\nnorm = Norm().f\nasync def later(x): ...\n"
    )
    assert find_target(f"{path}::{name}", "kernel").name == name


def test_modules_are_named_as_python_imports_them(tmp_path: Path) -> None:
    """A folder within a package may lack its __init__.py; a name that is not an identifier is found by its path."""
    nested = tmp_path / "pkg" / "kernels" / "norms"
    nested.mkdir(parents=True)
    for folder in (tmp_path / "pkg", nested):
        (folder / "__init__.py").touch()
    (nested / "rms.py").touch()
    (tmp_path / "my-ops.py").touch()
    assert Place(nested / "rms.py").module == "pkg.kernels.norms.rms"
    assert Place(nested / "__init__.py").module == "pkg.kernels.norms"
    odd = Place(tmp_path / "my-ops.py")
    assert odd.module.isidentifier() and odd.tops[odd.module] == tmp_path / "my-ops.py"


def test_objects_that_have_no_name_in_a_file(tmp_path: Path) -> None:
    def nested() -> None: ...

    with pytest.raises(OptionError, match="a lambda has no name"):
        find_target(reference_to(lambda x: x, "kernel"), "kernel")
    with pytest.raises(OptionError, match="within another function"):
        find_target(reference_to(nested, "kernel"), "kernel")
    with pytest.raises(OptionError, match="`reference` is a partial"):
        reference_to(functools.partial(nested), "reference")


def test_a_script_with_the_name_of_a_module_of_python_is_found_by_its_path(tmp_path: Path) -> None:
    (tmp_path / "io.py").write_text("def f(x):\n    return x\n")
    place = find_target(f"{tmp_path / 'io.py'}::f", "kernel").place
    assert place.module.startswith("user_") and place.tops[place.module] == tmp_path / "io.py"
