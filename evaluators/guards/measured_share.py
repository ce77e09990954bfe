"""Judges torch's share of a launch plan's time, which was measured step by step while the plan was replayed.

An operator is an allocation, a copy of a whole tensor (both are short lists by name: `profiling.operator_kinds`) or
work. So unknown operators count, too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

from pydantic import BaseModel, ConfigDict

from ...core import Rejection
from ..profiling.operator_kinds import LAYOUT
from ..settings import AllowTorch
from .torch_share import Operator, reference_shares

MOST = 0.1
"""Share of the plan's time that torch may take for work of the bottleneck's kind, and of kinds that the reference has
none of."""
MOST_IN_ALL = 0.5
"""The same with elementwise work and reductions that are not the bottleneck: half of the time is the kernel's."""
MARGIN = 1.1
"""By how much a family of operators may exceed its share of the reference's time."""
SMALL_MS = 0.005
"""Torch's work that takes no longer is glue, whatever the plan takes."""
_SOFT = ("elementwise", "reductions")


class TorchOperator(BaseModel):
    """A torch step of a plan: an operator that is more than an allocation or a view."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    kind: str
    family: str
    """Both as `profiling.operator_kinds.classify` gives them."""

    @property
    def short_name(self) -> str:
        """The name without namespace and overload."""
        return self.name.split(".")[1] if "." in self.name else self.name


class MeasuredShare(BaseModel):
    """Times of torch's steps and of the whole call."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    steps: tuple[TorchOperator, ...] = ()
    steps_ms: tuple[float, ...] = ()
    """Time of each step beyond that of an operator on a single element."""
    call_ms: float = 0.0

    def without(self, families: Collection[str]) -> MeasuredShare:
        """Return the same with the steps of some families left out of torch's share."""
        kept = [(s, ms) for s, ms in zip(self.steps, self.steps_ms, strict=True) if s.family not in families]
        return MeasuredShare(
            steps=tuple(s for s, _ in kept), steps_ms=tuple(ms for _, ms in kept), call_ms=self.call_ms
        )

    def shares(self) -> Mapping[str, float]:
        """Return the share of the call's time by family."""
        found: dict[str, float] = defaultdict(float)
        for step, taken_ms in zip(self.steps, self.steps_ms, strict=True):
            found[step.family] += taken_ms / self.call_ms
        return found


def forbidden_step(steps: Sequence[TorchOperator], allow_torch: AllowTorch) -> Rejection | None:
    """Check what needs no measuring: with `none` torch may only allocate."""
    if allow_torch is AllowTorch.NONE and steps:
        why = "with --allow-torch none only the kernel computes and copies; do it there, or allow glue"
        return _rejection(steps[0].short_name, why)
    return None


def share_violation(
    measured: MeasuredShare, reference: Sequence[Operator], allow_torch: AllowTorch
) -> Rejection | None:
    """Check the rule 'torch-operator' with `glue`: torch takes more of a plan's time than glue does."""
    if allow_torch is not AllowTorch.GLUE:
        return None
    theirs, bottleneck = reference_shares(reference)
    shares = {family: share for family, share in measured.shares().items() if family != LAYOUT or LAYOUT in bottleneck}
    if sum(shares.values()) * measured.call_ms <= SMALL_MS:
        return None
    hard = {
        family: share if family in bottleneck else max(0.0, share - MARGIN * theirs.get(family, 0.0))
        for family, share in shares.items()
        if family in bottleneck or family not in _SOFT
    }
    for found, most in ((hard, MOST), (shares, MOST_IN_ALL)):
        if (share := sum(found.values())) > most:
            names = {step.short_name for step in measured.steps if found.get(step.family)}
            return _rejection(
                ", ".join(sorted(names)),
                f"torch takes {min(share, 1.0):.0%} of the {measured.call_ms:.3g} ms of a call for work that the "
                f"kernel is there for, and may take {most:.0%}; write it in the kernel, or allow it with "
                "--allow-torch all",
            )
    return None


def _rejection(operators: str, why: str) -> Rejection:
    return Rejection(rule="torch-operator", where=f"{operators}, measured in its launch plan", why=why)
