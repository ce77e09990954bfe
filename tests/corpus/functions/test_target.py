"""How a function is named, and what is no function."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest
from kernelwright.core import OptionError
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
        ("{linear}::Class.method", "`kernel` Class.method is within another function or class"),
        ("{linear}::", "names no function; write it as path/to/ops.py::swiglu"),
    ],
)
def test_what_is_no_function_says_so(reference: str, said: str) -> None:
    with pytest.raises(OptionError) as caught:
        find_target(reference.format(linear=PACKAGES / "cpulinear" / "linear.py"), "kernel")
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("hidden", "line 3: hidden is no function of the file's top level; write one there that calls it"),
        ("Norm", "line 4: Norm is no function"),
        ("norm", "line 6: norm is no function"),
        ("later", "line 7: later is no function"),
        ("other", "line 1: other is no function of the file's top level; name the file that defines swiglu"),
    ],
)
def test_what_a_file_defines_in_another_way_says_where_and_what_to_do(tmp_path: Path, name: str, said: str) -> None:
    path = tmp_path / "ops.py"
    path.write_text(
        "from .mlp import swiglu as other\nif other:\n    def hidden(x): ...\nclass Norm:\n    def f(self): ...\n"
        "norm = Norm().f\nasync def later(x): ...\n"
    )
    with pytest.raises(OptionError) as caught:
        find_target(f"{path}::{name}", "kernel")
    assert said in str(caught.value)


def test_objects_that_have_no_name_in_a_file(tmp_path: Path) -> None:
    def nested() -> None: ...

    with pytest.raises(OptionError, match="a lambda has no name"):
        find_target(reference_to(lambda x: x, "kernel"), "kernel")
    with pytest.raises(OptionError, match="within another function"):
        find_target(reference_to(nested, "kernel"), "kernel")
    with pytest.raises(OptionError, match="`reference` is a partial"):
        reference_to(functools.partial(nested), "reference")
