"""The compile matrix: kernels for every architecture, as docs/devices.md has it.

Each architecture compiles a third of the kernels, another than its neighbours; TESTS_ALL_PAIRS=1 compiles all.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest
from kernelwright.core.devices import architecture

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
ARCHITECTURES = ("sm_80", "sm_90", "sm_100", "sm_120", "gfx942", "gfx950", "gfx1201")
SHARE = 1 if os.environ.get("TESTS_ALL_PAIRS") == "1" else 3


@pytest.fixture(scope="module")
def matrix() -> dict[str, Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(BENCHMARKS), *sys.path])
        return runpy.run_path(str(BENCHMARKS / "compile_matrix.py"))


def test_the_page_has_the_tables_of_the_record(matrix: dict[str, Any]) -> None:
    page = matrix["PAGE"].read_text()
    assert matrix["with_tables"](page, matrix["tables"]()) == page, "python benchmarks/compile_matrix.py --docs"


@pytest.mark.parametrize("name", ARCHITECTURES)
@pytest.mark.timeout(900)
def test_kernels_compile_as_recorded(matrix: dict[str, Any], name: str) -> None:
    recorded = json.loads(matrix["RECORD"].read_text())["architectures"][name]
    cases = matrix["kernels"]()
    assert list(recorded) == list(cases)
    chosen = list(cases.items())[ARCHITECTURES.index(name) % SHARE :: SHARE]
    found = matrix["compiled"](name, dict(chosen))
    assert len(found) == len(chosen) > 0
    for case, figures in found.items():
        assert figures.get("error", "") == recorded[case].get("error", ""), case
        if "error" not in figures:
            assert figures["matrix"] == recorded[case]["matrix"], case
            assert figures["shared_bytes"] <= architecture(name).block_shared_bytes, case
