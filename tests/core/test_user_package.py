"""The text of a candidate of several files."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kernelwright.core import KernelError
from kernelwright.core.user_package import CandidateText, UserModule, needs_package

LINES = st.lists(st.sampled_from(["import torch", "X = 1", "", "# a comment", "def f(x):\n    return x", '"""text"""']))


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(LINES, LINES, st.booleans())
def test_parts_come_back_as_they_were(first: list[str], second: list[str], parameters: bool) -> None:
    texts = {name: "\n".join(lines).rstrip("\n") for name, lines in (("pkg/a.py", first), ("pkg/b.py", second))}
    files = {name: text + "\n" if text else "" for name, text in texts.items()}
    text = CandidateText("BLOCK = 4\n\n" if parameters else "", files, "import torch\n")
    found = CandidateText.of(text.source, ("pkg/a.py", "pkg/b.py"))
    assert (found.files, found.call) == (files, "import torch\n")
    assert found.parameters.strip() == text.parameters.strip()
    assert CandidateText.of(found.source) == found


def test_lines_of_a_file_keep_their_numbers() -> None:
    text = CandidateText.of(CandidateText("", {"a.py": "\n\nX = 1\n"}, "").source)
    assert text.files["a.py"] == "\n\nX = 1\n"


def test_a_part_that_is_missing_is_named() -> None:
    source = CandidateText("", {"a.py": "X = 1\n"}, "").source
    with pytest.raises(KernelError, match=r'begins with __file__ = "b\.py"; keep these lines'):
        CandidateText.of(source, ("b.py",))
    assert needs_package(source) and not needs_package("__file__ = 'a.py'\n")


def test_imports_that_a_file_takes_from_another_part_are_found() -> None:
    """What rewrites the text sees one module: it finds torch imported, where that is another file's import."""
    one = (
        "from __future__ import annotations\nfrom .b import g\n\ndef f(x, np):\n    return torch.add(x, math.pi) + np\n"
    )
    other = "import math as m\nimport numpy as np\nfrom math import pi\nimport math\n"
    text = CandidateText("", {"a.py": one, "b.py": other}, "import torch\n")
    assert text.missing_imports("a.py") == ["import torch", "import math"]
    assert text.missing_imports("b.py") == []


def test_a_label_is_the_path_below_the_packages_folder() -> None:
    assert UserModule("pkg.ops", Path("/x/pkg/ops.py"), "").label == "pkg/ops.py"
    assert UserModule("pkg", Path("/x/pkg/__init__.py"), "").label == "pkg/__init__.py"


def test_what_only_looks_like_a_literal_is_no_constant() -> None:
    text = CandidateText("", {"a.py": "def f():\n    return A, B\n", "b.py": "A = 1\nB = {[]: 1}\n"}, "")
    assert text.missing_constants("a.py") == {"A": 1}
