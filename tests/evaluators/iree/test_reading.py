"""Modules that end the process of IREE's parser."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
from kernelwright.core import ProblemError
from kernelwright.evaluators.iree.processes import IreeProcesses
from kernelwright.evaluators.iree.reading import require_readable
from kernelwright.evaluators.settings import Limits, Sandbox
from kernelwright.tuners.mlir.analysis import analyse
from kernelwright.tuners.mlir.bindings import LEVELS

from .modules import MATMUL

DEEP = 20_000
ALIASES = "".join(f"#a{n + 1} = [#a{n}]\n" for n in range(DEEP))


@pytest.fixture(scope="module")
def processes() -> Iterator[IreeProcesses]:
    made = IreeProcesses("cpu", Limits(), Sandbox.AUTO)
    yield made
    made.close()


@pytest.mark.parametrize(
    "source",
    [
        f"func.func private @f(tensor<1xf32>) attributes {{a = {'[' * DEEP}{']' * DEEP}}}",
        "module {" * DEEP + "}" * DEEP,
        f"#sum = affine_map<(d0) -> ({' + '.join(['d0'] * 10 * DEEP)})>",
        "#a0 = [1]\n"
        + "".join(f"#a{n + 1} = [#a{n}]\n" for n in range(DEEP))
        + f"module attributes {{a = #a{DEEP}}} {{}}",
    ],
    ids=["attributes", "regions", "sums", "aliases"],
)
def test_what_crashes_the_parser_is_told(processes: IreeProcesses, source: str) -> None:
    with pytest.raises(ProblemError, match="cannot read deep: its parser was killed by SIGSEGV; does it nest"):
        require_readable(source, "deep", processes)


def test_other_modules_are_left_to_the_parser(processes: IreeProcesses) -> None:
    require_readable(MATMUL, "matmul", processes)
    require_readable("no module", "none", processes)
    with pytest.raises(ProblemError, match="none, line 1"):
        analyse("no module", "none")


@pytest.mark.parametrize("recursion", [1000, 10_000])
def test_a_depth_that_the_parser_survives_is_told_whatever_pythons_limit_is(
    processes: IreeProcesses, recursion: int
) -> None:
    deep = "module {" * 1500 + MATMUL + "}" * 1500
    require_readable(deep, "deep", processes)
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(recursion)  # as libraries do
    try:
        with pytest.raises(ProblemError, match=f"deep nests more than {LEVELS} levels deep"):
            analyse(deep, "deep")
    finally:
        sys.setrecursionlimit(before)


def test_loops_in_loops_are_read() -> None:
    nested = "module {" * 100 + MATMUL + "}" * 100
    assert len(analyse(nested, "nested").operations) == len(analyse(MATMUL, "flat").operations) == 1
