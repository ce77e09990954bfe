"""The results of `check` for machines that build software: JUnit XML, and a summary in Markdown."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from .check_result import CheckResult, KernelCheck, Verdict

_NOT_XML = re.compile("[^\t\n\r\\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 has no way to write, such as a terminal's colours in a compiler's message."""
_UNDECIDED = (Verdict.CHECKED, Verdict.DISTURBED)


def junit(result: CheckResult) -> str:
    """One suite with a case per kernel, in the form that Jenkins, GitLab and GitHub's actions read."""
    seconds = sum(kernel.seconds for kernel in result.kernels)
    counts = {
        "name": "kernelwright check",
        "tests": str(len(result.kernels)),
        "failures": str(len(result.failed)),
        "errors": "0",
        "time": f"{seconds:.3f}",
    }
    root = ElementTree.Element("testsuites", counts)
    suite = ElementTree.SubElement(root, "testsuite", {**counts, "skipped": "0"})
    properties = ElementTree.SubElement(suite, "properties")
    for name, value in {"device": result.device, **result.environment}.items():
        ElementTree.SubElement(properties, "property", {"name": name, "value": _clean(value)})
    for one in result.kernels:
        _case(suite, one)
    ElementTree.indent(root, " ")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'


def _case(suite: ElementTree.Element, one: KernelCheck) -> None:
    """A kernel that could not be compared passes: it is correct. What it lacks stands in its output."""
    named = {"classname": _clean(one.problem), "name": _clean(one.kernel), "time": f"{one.seconds:.3f}"}
    case = ElementTree.SubElement(suite, "testcase", named)
    told = _clean(in_words(one))
    if one.failed:
        failure = ElementTree.SubElement(case, "failure", {"message": told, "type": one.verdict.value})
        failure.text = _clean(one.evaluation.log or told)
    ElementTree.SubElement(case, "system-out").text = told


def markdown(result: CheckResult) -> str:
    """A table with a row per kernel."""
    passed = len(result.kernels) - len(result.failed)
    versions = [f"{name} {result.environment[name]}" for name in ("torch", "triton") if name in result.environment]
    lines = [
        f"### kernelwright check: {passed} of {len(result.kernels)} kernels passed",
        "",
        f"On {', '.join([result.device, *versions])}. Speedups are over the reference of the same run.",
        "",
        "| kernel | result | speedup | stored | median | |",
        "|---|---|---|---|---|---|",
    ]
    for item in result.kernels:
        now, latency = item.evaluation.speedup, item.evaluation.latency_ms
        mark = (
            "\N{CROSS MARK}" if item.failed else "\N{WARNING SIGN}" if item.verdict in _UNDECIDED else "\N{CHECK MARK}"
        )
        cells = [
            f"`{item.kernel}`",
            f"{mark} {item.verdict.value}",
            str(now or ""),
            str(item.stored.speedup) if item.stored else "",
            f"{latency:.4g} ms" if latency else "",
            item.message,
        ]
        lines.append(f"| {' | '.join(map(_cell, cells))} |")
    return "\n".join(lines) + "\n"


def in_words(one: KernelCheck) -> str:
    """'slower: 1.02x [1.01, 1.03] of the reference, stored 1.31x [1.30, 1.32]; 22.1% slower than on 2026-11-23'."""
    text, now = one.verdict.value, one.evaluation.speedup
    if now is not None:
        text += f": {now} of the reference"
        text += f", stored {one.stored.speedup}" if one.stored else ""
    return f"{text}; {one.message}" if one.message else text


def _clean(text: str) -> str:
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
