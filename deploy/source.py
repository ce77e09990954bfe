"""Results as files: kernels with the evidence of their measurement, and the obstacles to deploying them."""

from __future__ import annotations

import ast
import io
import json
import re
import tokenize
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core import KernelError, PythonKernel, TorchProblem
from ..core.dynamic_size import FreeSize
from ..core.evidence import HEADER
from ..core.source_text import source_lines
from ..core.syntax_tree import literal, syntax_tree
from ..core.user_package import needs_package

_SPDX = re.compile(r"SPDX-License-Identifier:\s*([\w.+-]+(?:\s+(?:AND|OR|WITH)\s+[\w.+-]+)*)")
_FORBIDS = re.compile(
    r"proprietary|confidential|non-?commercial|no[- ]?derivatives|CC-BY(-NC|-ND)|LicenseRef-"
    r"|(may|must) not be (copied|distributed|redistributed|published)|do not (copy|distribute|redistribute)",
    re.IGNORECASE,
)
_RESERVED = re.compile(r"all rights reserved", re.IGNORECASE)
_GRANTS = re.compile(r"redistribution and use|permission is (hereby )?granted|licensed under|SPDX-", re.IGNORECASE)


_NUMBER = (int, float)
_NEEDED: Mapping[str, Any] = {
    "workload": str,
    "sizes": dict,
    **dict.fromkeys(("latency_ms", "reference_ms", "speedup_ratio", "max_abs_error"), _NUMBER),
}
"""What a header must state, with the types."""


@dataclass(frozen=True)
class MeasuredKernel:
    """A kernel file that a run wrote, its evidence, and its problem at the sizes that it was measured at."""

    path: Path
    kernel: PythonKernel
    evidence: Mapping[str, Any]
    problem: TorchProblem
    licences: tuple[str, ...]
    """The SPDX identifiers that the file and its problem's state; a package has both."""

    @property
    def device(self) -> str:
        """'cpu' or 'cuda'."""
        return self.kernel.target.value

    @property
    def sizes(self) -> dict[str, Any]:
        """The constants of the problem that its workload sets."""
        return dict(self.problem.sizes)

    @property
    def serves(self) -> FreeSize | None:
        """The part of a size's range that it was tuned for, if it states one."""
        match self.evidence.get("serves"):
            case None:
                return None
            case [str(name), int(low), int(high)]:
                return FreeSize(name, low, high)
        raise KernelError(f"{self.path}: its header states no range of a size; run `optimize --dynamic` again")


def read_evidence(path: Path, source: str) -> Mapping[str, Any]:
    """Return the evidence in a kernel's header.

    Raises `KernelError` for a kernel without evidence, and for one that was not verified, or not replayed.
    """
    described = ast.get_docstring(syntax_tree(source)) or ""
    lines = [line for line in source_lines(described) if line.startswith(HEADER[1])]
    try:
        found = literal(lines[0].partition(":")[2]) if lines else None
        json.dumps(found, allow_nan=False)  # what the package states of it
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        found = None
    if not isinstance(found, dict) or found.get("correctness") is not True:
        raise KernelError(f"{path} was not verified: its header has no 'Evaluation Result'; deploy what optimize wrote")
    if found.get("replayed") is not True:
        raise KernelError(
            f"{path} was not replayed, so that its times may include something else; run `optimize --kernel {path}` "
            "and deploy its result"
        )
    for name, kind in _NEEDED.items():
        if not isinstance(found.get(name), kind) or isinstance(found[name], bool):
            raise KernelError(f"{path}: its header has no {name} as optimize writes it; deploy what optimize wrote")
    if not _is_interval(found.get("interval")):
        raise KernelError(f"{path}: its header has no interval as optimize writes it; deploy what optimize wrote")
    return found


def _is_interval(value: Any) -> bool:
    """Return whether a value is two numbers, or None."""
    return value is None or (
        isinstance(value, list | tuple) and len(value) == 2 and all(isinstance(bound, _NUMBER) for bound in value)
    )


def licence_of(path: Path, source: str) -> str:
    """Return the SPDX identifier that a file's comments and docstring state; '' without one.

    Raises `KernelError` if they forbid to pass it on.
    """
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    text = "\n".join([ast.get_docstring(syntax_tree(source)) or "", *_comments(tokens)])
    forbidden = _FORBIDS.search(text)
    if forbidden is None and not _GRANTS.search(text):
        forbidden = _RESERVED.search(text)
    if forbidden is not None:
        raise KernelError(f"{path} says {forbidden[0]!r}, so its licence forbids to deploy it; ask its author")
    stated = _SPDX.search(text)
    return " ".join(stated[1].split()) if stated else ""


def measured_kernel(path: Path, kernel: PythonKernel, problem: TorchProblem) -> MeasuredKernel:
    """Return a result whose header says `workload` and `sizes`. Raises `KernelError` if it cannot be deployed."""
    if needs_package(kernel.source):
        raise KernelError(f"{path} is the result for a function of a package, which it needs; apply its patch instead")
    evidence = read_evidence(path, kernel.source)
    licences = {licence_of(path, kernel.source), licence_of(Path(problem.path or problem.name), problem.source)}
    sized = problem.resized(str(evidence["workload"]), evidence["sizes"])
    return MeasuredKernel(path, kernel, evidence, sized, tuple(sorted(licences - {""})))


def common_licence(kernels: Sequence[MeasuredKernel], given: str | None) -> str:
    """Return the package's licence: the given one, or the one in all files that state a licence; '' if none does.

    Raises `KernelError` for several without a given one, and for a given one that does not name what a file states.
    """
    stated = sorted({licence for item in kernels for licence in item.licences})
    together = " AND ".join(stated)
    if given is None:
        if len(stated) > 1:
            raise KernelError(f"kernels and reference state different licences; give `license`, {together!r}")
        return together
    if missing := [item for item in stated if not re.search(rf"(?<![\w.+-]){re.escape(item)}(?![\w.+-])", given)]:
        raise KernelError(f"a file is under {missing[0]}, which `license` must name: {together!r} names all")
    return given


def _comments(tokens: Any) -> list[str]:
    return [token.string.lstrip("# ") for token in tokens if token.type == tokenize.COMMENT]
