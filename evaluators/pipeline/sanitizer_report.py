"""Output of compute-sanitizer: the first finding about a plan's own kernels, and whether it can be trusted.

The forms are those of https://docs.nvidia.com/compute-sanitizer/ComputeSanitizer/; a record is a line, and indented
lines of where it happened.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ...core import Rejection
from ...core.evaluation import CLEAN

TOOLS = ("memcheck", "initcheck", "racecheck")
"""In the order in which they run: all may not finish."""
NOT_SUPPORTED = "Device not supported"
PRINT_LIMIT = 1000
"""Findings that are printed; those about other kernels than the plan's do not count."""

_LINE = re.compile(r"^=+ ?(.*)$")
_SUMMARY = re.compile(r"^(?:ERROR SUMMARY: (\d+) error|RACECHECK SUMMARY: .*\((\d+) error)")
_OUTER = re.compile(r"^COMPUTE-SANITIZER| SUMMARY: ")
_ERROR = re.compile(r"(?:Internal Sanitizer )?Error: ")
_VERSION = re.compile(r"Version (\d+)\.(\d+)")
_BEGINS = {
    "memcheck": re.compile(r"(?!(?i:warning))"),
    "initcheck": re.compile(r"Uninitialized __\w+__ memory read"),
    "racecheck": re.compile(r"(?i:error): (Race reported|\(?.*Potential \w+ hazard)"),
}
"""Prefixes of the first line of records that count: racecheck's warnings do not."""
_RULES = {
    "memcheck": ("out-of-bounds", "keep every access within a tensor"),
    "initcheck": ("uninitialized-read", "write what is read later"),
    "racecheck": ("shared-memory-race", "synchronize the threads between both accesses"),
}
"""By tool: the rule that a finding breaks, and the advice."""
_WRITES = "writes the same place from several threads, as compilers do for a value that several threads hold"


@dataclass(frozen=True)
class _Fault:
    """A false finding that a release of the tool removed, or none has."""

    tools: tuple[str, ...]
    code: str
    """A pattern of code in which it occurs: of PTX, or of TileLang's IR."""
    told: str
    fixed: tuple[int, int] | None


_BULK = r"cp[._]async[._]bulk|tensormap|tma_(load|store)"
_FAULTS = (
    _Fault(("memcheck", "initcheck"), r"cp[._]async", "cp.async", (2026, 4)),
    _Fault(("initcheck",), _BULK, "TMA", None),
    _Fault(("racecheck",), rf"mbarrier|wgmma|tl::gemm|{_BULK}", "mbarrier or wgmma", (2026, 3)),
)
"""From the tool's release notes. Findings in such code are reported but do not count."""


@dataclass(frozen=True)
class Report:
    """What a tool found: `clean`, or something else in words, and the rule that this breaks where it counts."""

    told: str
    finding: Rejection | None = None


def version_in(text: str) -> tuple[int, int]:
    """Return the tool's version from what `--version` prints; (0, 0) where it says none."""
    found = _VERSION.search(text)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def read_report(tool: str, text: str, codes: Mapping[str, str], version: tuple[int, int]) -> Report | None:
    """Return what a tool found, given the plan's kernels by their names; None where its report has no end.

    The first finding counts; one that this version may report falsely, only where there is no other.
    """
    unclear: str | None = None
    for record in _records(text):
        kernel = _own(record, codes)
        if kernel is None or not _BEGINS[tool].match(record[0]):
            continue
        told = "; ".join(record[:4])
        if (doubt := _doubt(tool, record, codes[kernel], version)) is None:
            rule, advice = _RULES[tool]
            why = f"compute-sanitizer's {tool}: {told}; {advice}"
            return Report(f"found: {told}", Rejection(rule=rule, where=kernel, why=why))
        unclear = unclear or f"unclear: {kernel} {doubt}: {told}"
    if unclear is not None:
        return Report(unclear)
    return Report(CLEAN) if _ends(text) else None


def last_error(text: str) -> str:
    """Return the last line in which the tool says what went wrong; '' without one."""
    lines = [found[1].strip() for line in text.splitlines() if (found := _LINE.match(line))]
    return next((line for line in reversed(lines) if _ERROR.match(line)), "")


def _records(text: str) -> list[list[str]]:
    """Return the records of a report, each as its lines."""
    found: list[list[str]] = []
    for line in text.splitlines():
        marked = _LINE.match(line)
        if marked is None or not marked[1].strip() or _OUTER.search(marked[1]):
            continue
        if found and (marked[1].startswith("  ") or marked[1].startswith("and ")):
            found[-1].append(marked[1].strip())
        else:
            found.append([marked[1].strip()])
    return found


def _own(record: list[str], codes: Mapping[str, str]) -> str | None:
    """Return which of the plan's kernels a record names, but for the frames of the host."""
    places = "\n".join(line for line in record if not line.startswith("Host Frame"))
    return next((name for name in codes if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", places)), None)


def _doubt(tool: str, record: list[str], code: str, version: tuple[int, int]) -> str | None:
    """Return why a finding may be none."""
    if tool == "racecheck" and not re.search(r"Read access|RAW|WAR", " ".join(record)):
        return _WRITES
    for fault in _FAULTS:
        if tool in fault.tools and (fault.fixed is None or version < fault.fixed) and re.search(fault.code, code):
            return f"uses {fault.told}, of which this version may report what is none"
    return None


def _ends(text: str) -> bool:
    """Return whether a report has its summary, and all that it counts was printed."""
    for line in text.splitlines():
        marked = _LINE.match(line)
        summary = _SUMMARY.match(marked[1]) if marked else None
        if summary is not None:
            count = int(summary[1] or summary[2] or 0)
            return count == 0 or (count <= PRINT_LIMIT and len(_records(text)) >= count)
    return False
