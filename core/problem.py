"""A problem: what must be computed, as a PyTorch reference in the KernelBench convention."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from .errors import ProblemError

# Absolute and relative tolerance per dtype, as KernelBench sets them; integers must be equal.
TOLERANCES: Mapping[str, float] = {
    "float64": 1e-7,
    "float32": 1e-4,
    "float16": 1e-2,
    "bfloat16": 1e-2,
}
DEFAULT_WORKLOAD = "default"
_NEEDED = ("Model", "get_inputs", "get_init_inputs")
_ASSIGNMENT = re.compile(r"\s*([A-Za-z_]\w*)\s*=\s*(.+)")


@dataclass(frozen=True)
class Problem:
    """A reference `Model` with `get_inputs()` (forward arguments) and `get_init_inputs()` (constructor's).

    A workload is a set of sizes: values for module constants of the source, set before the inputs
    are made. The workload 'default' leaves the constants as they are.
    """

    id: str
    """`level2/2_10`: level and number."""
    name: str
    """`10_ConvTranspose2d_MaxPool_Hardtanh_Mean_Tanh`: the file's name as in KernelBench."""
    source: str
    path: str = ""
    workload: str = DEFAULT_WORKLOAD
    sizes: Mapping[str, Any] = field(default_factory=dict)
    tolerances: Mapping[str, float] = field(default_factory=lambda: TOLERANCES)

    def __post_init__(self) -> None:
        try:
            tree = ast.parse(self.source)
        except (SyntaxError, ValueError) as error:
            raise ProblemError(f"problem {self.name} is no valid Python: {error}") from None
        defined = {n.name for n in tree.body if isinstance(n, ast.ClassDef | ast.FunctionDef)}
        if missing := [name for name in _NEEDED if name not in defined]:
            raise ProblemError(
                f"problem {self.name} lacks {', '.join(missing)}; a problem file defines Model, get_inputs() "
                "and get_init_inputs()"
            )

    @cached_property
    def workloads(self) -> Mapping[str, Mapping[str, Any]]:
        """The named workloads that the file declares in WORKLOADS, and 'default'."""
        declared = self.constants.get("WORKLOADS", {})
        if not isinstance(declared, dict) or not all(isinstance(sizes, dict) for sizes in declared.values()):
            raise ProblemError(f"problem {self.name}: WORKLOADS must be a dict of dicts of sizes, all literals")
        return {DEFAULT_WORKLOAD: {}, **declared}

    @cached_property
    def constants(self) -> dict[str, Any]:
        """The module's constants: those with a literal value, and None for the others."""
        found: dict[str, Any] = {}
        for node in ast.parse(self.source).body:
            if not isinstance(node, ast.Assign):
                continue
            for target in node.targets:
                names = target.elts if isinstance(target, ast.Tuple) else [target]
                try:
                    value = ast.literal_eval(node.value)
                except ValueError:
                    value = None
                values = value if isinstance(target, ast.Tuple) and isinstance(value, tuple) else [value] * len(names)
                found.update({n.id: v for n, v in zip(names, values, strict=False) if isinstance(n, ast.Name)})
        return found

    def at(self, workload: str) -> Problem:
        """The problem at a named workload, or at sizes such as 'batch_size=4,height=32'.

        Raises `ProblemError` for an unknown name or constant.
        """
        if workload in self.workloads:
            return self.resized(workload, self.workloads[workload])
        if "=" in workload:
            return self.resized(workload, _parse_sizes(workload))
        raise ProblemError(
            f"problem {self.id} has no workload {workload!r}; it has {', '.join(self.workloads)}, or give sizes "
            "such as 'batch_size=4,height=32'"
        )

    def resized(self, workload: str, sizes: Mapping[str, Any]) -> Problem:
        """The problem with these constants set; raises `ProblemError` for one that it does not have."""
        if unknown := sorted(set(sizes) - set(self.constants)):
            raise ProblemError(
                f"problem {self.id} has no constant {', '.join(unknown)}; it has "
                f"{', '.join(name for name in self.constants if name != 'WORKLOADS') or 'none'}"
            )
        return replace(self, workload=workload, sizes=sizes)


def _parse_sizes(text: str) -> dict[str, Any]:
    sizes = {}
    for part in re.split(r",(?=\s*[A-Za-z_]\w*\s*=)", text):
        match = _ASSIGNMENT.fullmatch(part)
        try:
            if match is None:
                raise ValueError
            sizes[match[1]] = ast.literal_eval(match[2].strip())
        except (ValueError, SyntaxError):
            raise ProblemError(
                f"workload {part.strip()!r} is no size; write name=value, such as batch_size=4"
            ) from None
    return sizes
