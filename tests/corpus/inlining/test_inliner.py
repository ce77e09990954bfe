"""What a function needs of its package becomes one source; what cannot says why."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from kernelwright.core import KernelError
from kernelwright.corpus.functions.running import Conditions
from kernelwright.corpus.inlining.inliner import Inlined, inline
from kernelwright.corpus.inlining.modules import OwnName, Package
from kernelwright.corpus.inlining.roots import Roots


def inlined(folder: Path, **files: str) -> Inlined:
    """`f` of the module `a` in a package of these files."""
    for name, text in {"__init__": "", **files}.items():
        path = folder.joinpath("pkg", *name.split("__")) if name != "__init__" else folder / "pkg" / "__init__"
        path.with_suffix(".py").parent.mkdir(parents=True, exist_ok=True)
        path.with_suffix(".py").write_text(text)
    return inline(Package(Roots(folder / "pkg" / "a.py")), [OwnName("pkg.a", "f")], rewriting=Conditions().decided)


def run(found: Inlined) -> Any:
    namespace: dict[str, Any] = {"__name__": "kernel"}
    exec(compile(found.source, "kernel", "exec"), namespace)
    return namespace["f"]


def test_names_that_meet_are_kept_apart(tmp_path: Path) -> None:
    found = inlined(
        tmp_path,
        a="from . import b\nfrom .b import step as other\nSIZE = 2\ndef step(x):\n    return x + SIZE\n"
        "def f(step_by):\n    SIZE = 1\n    return step(step_by) + other(step_by) + b.SIZE + SIZE\n",
        b="import math as m\nSIZE = 100\ndef step(x, SIZE=SIZE):\n    return m.floor(x) * SIZE\n",
    )
    assert run(found)(1) == 3 + 100 + 100 + 1
    assert found.names[OwnName("pkg.b", "SIZE")] == "SIZE_B"
    assert found.names[OwnName("pkg.a", "SIZE")] == "SIZE"


CAPTURES = """
from math import floor as max

from . import b
from .b import length as other


def f(step, values):
    size = 3
    return b.step(step) + size + other(values) + max(1.5) + sum(b.width for width in [1]) + b.size


def length(values):
    return -1
"""


def test_nothing_local_captures_what_is_inlined(tmp_path: Path) -> None:
    """Parameters, variables, those of comprehensions and classes, `global`, and names of Python's own."""
    found = inlined(
        tmp_path,
        a=CAPTURES,
        b="from .c import max as most\nsize = 10\nwidth = 20\ncount = 0\n"
        "def step(x):\n    global count\n    count += 1\n    return most(x) + count\n"
        "def length(values):\n    return len(values) + max(values)\n",
        c="def max(x):\n    match x:\n        case complex(real=real):\n            return real\n    return 100 * x\n"
        "real = 5\n",
    )
    assert run(found)(7, [4, 5]) == (700 + 1) + 3 + (2 + 5) + 1 + 20 + 10
    assert found.names[OwnName("pkg.b", "size")] == "size_b"
    assert found.names[OwnName("pkg.b", "step")] == "step_b"
    assert found.names[OwnName("pkg.c", "max")] == "max_c"


def test_libraries_under_names_that_are_taken(tmp_path: Path) -> None:
    found = inlined(
        tmp_path,
        a="import os.path\nfrom math import floor as low\nfrom .b import g\n"
        "def f(x):\n    return os.path.join('a', 'b'), low(x), *g(x)\n",
        b="from math import ceil as low\nos = 3\ndef g(x):\n    return os, low(x)\n",
    )
    assert run(found)(1.5) == ("a/b", 1, 3, 2)


def test_a_variable_of_an_outer_function_is_no_definition(tmp_path: Path) -> None:
    found = inlined(
        tmp_path,
        a="from .b import total as start\ntotal = 1\n"
        "def f():\n    total = start\n    def add(match):\n        nonlocal total\n        total += match\n"
        "    add(match=4)\n    return total\n",
        b="total = 10\nmatch = 3\n",
    )
    assert run(found)() == 14


def test_annotations_stay_texts_where_all_that_have_some_ask_for_it(tmp_path: Path) -> None:
    plain = "def double(x):\n    return 2 * x\n"
    lazy = "from __future__ import annotations\nfrom .b import double\ndef f(x: Unknown):\n    return double(x)\n"
    assert run(inlined(tmp_path / "lazy", a=lazy, b=plain))(2) == 4
    eager = inlined(tmp_path / "eager", a=lazy, b=plain.replace("(x)", "(x: int)"))
    assert "__future__" not in eager.source


def test_types_that_only_a_type_checker_knows_are_texts(tmp_path: Path) -> None:
    """Where not all annotations are, since another module does not ask for it."""
    lazy = (
        "from __future__ import annotations\nfrom typing import TYPE_CHECKING\nfrom .b import N\n"
        "if TYPE_CHECKING:\n    from collections.abc import Sequence\n"
        "def f(x: int = 1, sizes: Sequence[int] | None = None) -> list[Sequence]:\n    return x + N\n"
    )
    found = inlined(tmp_path, a=lazy, b="N: int = 2\n")
    assert run(found)() == 3
    assert 'def f(x: int = 1, sizes: "Sequence[int] | None" = None) -> "list[Sequence]":' in found.source


def test_what_a_module_does_with_its_names_comes_along(tmp_path: Path) -> None:
    found = inlined(
        tmp_path,
        a="from .b import *\nfrom .b import TABLE as T\ndef f():\n    from . import c\n    return T, c.double(g())\n"
        "print('no')\n",
        b="import sys\nif sys.version_info > (3,):\n    def g():\n        return 1\nelse:\n    g = None\n"
        "TABLE = [1]\nTABLE.append(2)\nTABLE += [3]\nTABLE[0] = 0\nUNUSED = 5\n",
        c="from pkg.b import TABLE\ndef double(x):\n    return 2 * x * len(TABLE)\n",
    )
    assert run(found)() == ([0, 2, 3], 6)
    assert "UNUSED" not in found.source and "print" not in found.source


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"a": "import importlib\ndef f():\n    return importlib.import_module('x')\n"}, r"a\.py, line 3: a dynamic"),
        ({"a": "from . import b\ndef f():\n    return g(b)\n", "b": ""}, "the module pkg.b is used as a value"),
        ({"a": "def f():\n    return globals()['x']\n"}, "line 2: globals asks for names that are computed"),
        ({"a": "from .b import x\ndef f():\n    return x\n", "b": "def __getattr__(n): ...\n"}, "defines no x in its"),
        ({"a": "from .b import x\ndef f():\n    return x\n"}, "the package has no module pkg.b"),
        (
            {"a": "from .b import g\ndef f():\n    return g()\n", "b": "g = lambda: h()\ndef h():\n    eval('')\n"},
            r"b\.py, line 3: eval asks for code from a text, .* \(f uses g, which uses h\)$",
        ),
        (
            {"a": "try:\n    from .b import x\nexcept:\n    x = 1\ndef f():\n    return x\n", "b": "x = 2\n"},
            "whether 'from .b import x' is used shows only when it runs; import it unconditionally",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_inlined_says_which_and_why(tmp_path: Path, files: dict[str, str], said: str) -> None:
    with pytest.raises(KernelError) as caught:
        inlined(tmp_path, **files)
    assert re.search(said, str(caught.value)), caught.value


def test_a_compiled_module_says_that_it_is_one(tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "_C.cpython-311.so").touch()
    with pytest.raises(KernelError, match=r"module pkg._C is compiled \(.*_C.cpython-311.so\)"):
        inlined(tmp_path, a="from ._C import silu\ndef f(x):\n    return silu(x)\n")


CHOOSES = """import importlib
import operator

from packaging.version import Version


def newer(package, compare, version):
    return compare(Version(importlib.import_module(package).__version__), Version(version))


if newer("numpy", operator.ge, "99"):
    from math import no_such_name as root
elif newer("numpy", operator.ge, "1.0"):
    from math import sqrt as root
else:
    from cmath import sqrt as root


def f(x):
    return root(x)
"""


def test_the_condition_of_an_import_is_decided_here_and_now(tmp_path: Path) -> None:
    """As packages choose between places of a library's functions by its version, which they import by a text."""
    found = inlined(tmp_path, a=CHOOSES)
    assert run(found)(4.0) == 2.0
    assert "importlib" not in found.source and "if False:" in found.source and "elif True:" in found.source
    with pytest.raises(
        KernelError, match=r"line 11: the condition of an import cannot be evaluated here: ZeroDivision"
    ):
        inlined(tmp_path, a=CHOOSES.replace('newer("numpy", operator.ge, "99")', "1 / 0"))


SWITCHES = """import os
import sys
from .flags import flag

FAST: bool = os.getenv("FAST_OF_TEST", "1") == "1"
SIZE = int(os.environ.get("SIZE_OF_TEST", "4"))
SECRET = os.getenv("PATH")
BROKEN = os.environ["NONE_OF_TEST"] if flag() else 1
if sys.version_info >= (3, 8):
    BITS = 64
else:
    BITS = 32


def f():
    return FAST, SIZE, BITS


def g():
    return SECRET, BROKEN
"""


def test_switches_of_the_environment_are_decided_and_texts_stay_where_they_are(tmp_path: Path) -> None:
    found = inlined(tmp_path, a=SWITCHES, flags="def flag():\n    return 1 / 0\n")
    assert run(found)() == (True, 4, 64)
    assert "FAST: bool = True\n" in found.source and "SIZE = 4\n" in found.source and "if True:" in found.source
    assert not re.search(r"\b(os|sys)\b", found.source)
    (tmp_path / "other").mkdir()
    other = SWITCHES.replace("def f", "def h").replace("def g", "def f")
    kept = inlined(tmp_path / "other", a=other, flags="def flag():\n    return 1 / 0\n")
    assert 'SECRET = os.getenv("PATH")' in kept.source and 'BROKEN = os.environ["NONE_OF_TEST"]' in kept.source
