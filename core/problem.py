"""Problems: what to compute, at which sizes, within which tolerances."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, NamedTuple, Self

from .errors import ProblemError
from .syntax_tree import literal
from .text import digest_of


class Tolerance(NamedTuple):
    """The allowed difference: |actual - expected| <= absolute + relative * |expected|."""

    absolute: float
    relative: float
    matched: float = 1.0
    """Fraction of the elements for which this must hold."""
    cap: float = 1e300
    """Upper bound of every element's error. An unexpected infinity or NaN exceeds it."""

    @property
    def tightest(self) -> float:
        """The smaller of absolute and relative."""
        return min(self.absolute, self.relative)


# Per dtype, as KernelBench sets them: absolute and relative are equal. Integers must be equal to the expected ones.
TOLERANCES: Mapping[str, Tolerance] = {
    "float64": Tolerance(1e-7, 1e-7),
    "float32": Tolerance(1e-4, 1e-4),
    "float16": Tolerance(1e-2, 1e-2),
    "bfloat16": Tolerance(1e-2, 1e-2),
    # Not from KernelBench: a number and its neighbour.
    "float8_e4m3fn": Tolerance(1e-2, 0.125),
    "float8_e5m2": Tolerance(1e-2, 0.25),
}
DEFAULT_WORKLOAD = "default"
_ASSIGNMENT = re.compile(r"\s*([A-Za-z_]\w*)\s*=\s*(.+)")


@dataclass(frozen=True)
class Problem(ABC):
    """Base of problems: an id, named workloads of sizes, and tolerances per dtype.

    A workload is a set of named sizes. The workload 'default' keeps the sizes of the file.
    """

    id: str
    """Level and number: `level2/2_10`."""
    name: str
    """The file's name in KernelBench: `10_ConvTranspose2d_MaxPool_Hardtanh_Mean_Tanh`."""
    _: KW_ONLY
    workload: str = DEFAULT_WORKLOAD
    sizes: Mapping[str, Any] = field(default_factory=dict)
    """Sizes that the workload sets."""
    tolerances: Mapping[str, Tolerance] = field(default_factory=lambda: TOLERANCES)

    @property
    def is_own(self) -> bool:
        """Whether it is the user's work, in which a library may serve, and not a benchmark's exercise in kernels."""
        return False

    @property
    @abstractmethod
    def digest(self) -> str:
        """Digest of the computation without its sizes, sixteen hexadecimal digits."""

    @property
    @abstractmethod
    def workloads(self) -> Mapping[str, Mapping[str, Any]]:
        """Sizes by workload name, including 'default'."""

    @property
    @abstractmethod
    def integers(self) -> Mapping[str, int]:
        """All named integers of the problem at its sizes, which constraints of a search may use."""

    @abstractmethod
    def resized(self, workload: str, sizes: Mapping[str, Any]) -> Self:
        """Return the problem with these sizes set. Raises `ProblemError` for unknown sizes."""

    def tolerating(self, absolute: float | None, relative: float | None) -> Self:
        """Return the problem with these tolerances for each dtype; None keeps what it has."""
        changed = {"absolute": absolute, "relative": relative}
        given = {name: value for name, value in changed.items() if value is not None}
        return replace(self, tolerances={dtype: known._replace(**given) for dtype, known in self.tolerances.items()})

    @property
    def sizes_key(self) -> str:
        """Return the sizes as stored in records. `ast.literal_eval` restores their items."""
        return repr(sorted(self.sizes.items()))

    @property
    def sizes_digest(self) -> str:
        """Digest of the sizes, sixteen hexadecimal digits."""
        return digest_of(self.sizes_key)

    def at(self, workload: str) -> Self:
        """Return the problem at a named workload, or at sizes such as 'batch_size=4,height=32'.

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


def _parse_sizes(text: str) -> dict[str, Any]:
    sizes = {}
    for part in re.split(r",(?=\s*[A-Za-z_]\w*\s*=)", text):
        match = _ASSIGNMENT.fullmatch(part)
        try:
            if match is None:
                raise ValueError
            sizes[match[1]] = literal(match[2].strip())
        except (ValueError, SyntaxError):
            raise ProblemError(
                f"workload {part.strip()!r} is not a size; write name=value, such as batch_size=4"
            ) from None
    return sizes
