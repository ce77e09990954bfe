"""What compute-sanitizer prints, in the forms of its manual and of its versions."""

from __future__ import annotations

import pytest
from kernelwright.evaluators.pipeline.sanitizer_report import last_error, read_report, version_in

NEW = (2026, 4)
# As the manual of 2026.4 shows them, with other names.
BEHIND = """========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 4 bytes
=========     at add_one+0x90 in kernel.py:12
=========     by thread (0,0,0) in block (3,0,0)
=========     Address 0x710fdc800400 is out of bounds
=========     and is 1 bytes after the nearest allocation at 0x710fdc800000 of size 1,024 bytes
=========     Saved host backtrace up to driver entry point at kernel launch time
=========         Host Frame: launch [0xacd4] in libcuda.so
=========
========= ERROR SUMMARY: 1 error
"""
UNINITIALIZED = """========= COMPUTE-SANITIZER
========= Uninitialized __global__ memory read of size 4 bytes
=========     at add_one+0x70 in kernel.py:9
=========     by thread (31,0,0) in block (1,0,0)
=========     Address 0x7f3c7ec000fc
=========
========= ERROR SUMMARY: 1 error
"""
RACE = """========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at add_one+0x90 in kernel.cu:41
=========     and Read access at add_one+0x100 in kernel.cu:51 [508 hazards]
=========
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
"""
# Of Triton's reductions (triton-lang/triton, issue 4736).
WRITES = """========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at add_one+0x5ad20 in standard.py:237
=========     and Write access at add_one+0x5ad20 in standard.py:237 [6136 hazards]
=========
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
"""
WARNING = """========= COMPUTE-SANITIZER
========= WARNING: Race reported between Write access at add_one+0xf0 in kernel.cu:40
=========     and Read access at add_one+0x280 in kernel.cu:46 [4 hazards]
=========
========= RACECHECK SUMMARY: 1 hazard displayed (0 errors, 1 warning)
"""
CLEAN = "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n"
CODES = {"other": "", "add_one": "ld.global.f32"}


@pytest.mark.parametrize(
    ("tool", "text", "rule", "told"),
    [
        ("memcheck", BEHIND, "out-of-bounds", "Invalid __global__ write of size 4 bytes; at add_one+0x90"),
        ("initcheck", UNINITIALIZED, "uninitialized-read", "Uninitialized __global__ memory read"),
        ("racecheck", RACE, "shared-memory-race", "and Read access at add_one+0x100"),
        # Until 2023.2 the place came first.
        (
            "memcheck",
            BEHIND.replace("add_one+0x90 in kernel.py:12", "0x90 in kernel.py:12:add_one"),
            "out-of-bounds",
            "",
        ),
        # Of a function that the kernel calls.
        (
            "memcheck",
            BEHIND.replace("at add_one+0x90", "at helper+0xb0").replace(
                "=========     Saved",
                "=========         Device Frame: add_one+0x30 in kernel.py:44\n=========     Saved",
            ),
            "out-of-bounds",
            "helper",
        ),
    ],
)
def test_the_first_finding_of_each_tool(tool: str, text: str, rule: str, told: str) -> None:
    found = read_report(tool, text, CODES, NEW)
    assert found is not None and found.finding is not None, found
    assert (found.finding.rule, found.finding.where) == (rule, "add_one")
    assert told in found.finding.why and f"compute-sanitizer's {tool}" in found.finding.why


@pytest.mark.parametrize(
    ("tool", "text"),
    [
        ("memcheck", CLEAN),
        ("initcheck", UNINITIALIZED.replace("add_one", "vectorized_elementwise_kernel")),
        ("memcheck", BEHIND.replace("add_one", "cutlass_add_one")),
        (
            "initcheck",
            UNINITIALIZED.replace("at add_one", "at gemm").replace("Address", "    Host Frame: add_one [0x1]"),
        ),
        ("racecheck", WARNING),
    ],
)
def test_what_is_not_a_kernels_own_and_what_is_no_error_is_clean(tool: str, text: str) -> None:
    found = read_report(tool, text, CODES, NEW)
    assert found is not None and (found.told, found.finding) == ("clean", None)


@pytest.mark.parametrize(
    ("tool", "text", "code", "version", "doubt"),
    [
        ("racecheck", WRITES, "st.shared", NEW, "writes the same place from several threads"),
        ("memcheck", BEHIND, "cp.async.cg.shared.global [%r1], [%rd2], 0x10, %r3;", (2025, 3), "cp.async"),
        ("initcheck", UNINITIALIZED, "cp.async.bulk.tensor.2d.global.shared", NEW, "TMA"),
        ("racecheck", RACE, "wgmma.mma_async.sync", (2025, 3), "wgmma"),
    ],
)
def test_what_a_version_reports_falsely_is_told_and_does_not_count(
    tool: str, text: str, code: str, version: tuple[int, int], doubt: str
) -> None:
    found = read_report(tool, text, {"add_one": code}, version)
    assert found is not None and found.finding is None
    assert found.told.startswith("unclear: add_one") and doubt in found.told


def test_a_fixed_version_is_believed() -> None:
    code = {"add_one": "cp.async.cg.shared.global"}
    assert read_report("memcheck", BEHIND, code, (2025, 3)).finding is None  # type: ignore[union-attr]
    assert read_report("memcheck", BEHIND, code, NEW).finding is not None  # type: ignore[union-attr]


def test_a_finding_that_counts_comes_before_one_that_may_be_none() -> None:
    both = WRITES.partition("========= RACECHECK SUMMARY")[0] + RACE.partition("\n")[2]
    found = read_report("racecheck", both, CODES, NEW)
    assert found is not None and found.finding is not None and "Read access" in found.finding.why


@pytest.mark.parametrize(
    "text", ["", "========= COMPUTE-SANITIZER\n", "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 1 error\n"]
)
def test_a_report_without_its_end_or_its_findings_is_none(text: str) -> None:
    assert read_report("memcheck", text, CODES, NEW) is None


def test_versions_and_errors() -> None:
    printed = "NVIDIA (R) Compute Sanitizer\nVersion 2026.4.0.0 (build 39022338) (public-release)\n"
    assert version_in(printed) == NEW and version_in("?") == (0, 0)
    ended = "========= Error: process didn't terminate successfully\n"
    ended += "========= Error: Target application terminated before first instrumented API call\n"
    assert last_error(ended).startswith("Error: Target application terminated") and last_error(CLEAN) == ""
