"""Measures how much of a candidate's work torch does.

`operators_of` observes one call in the candidate's worker; `torch_violation` compares the result, in the calling
process, with the operators that the reference dispatches for the same inputs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence

from pydantic import BaseModel, ConfigDict, Field

from ...core import Rejection
from ..profiling.operator_kinds import COMPUTE, FREE, LAYOUT, LEAVING_KIND, MOVING
from ..settings import AllowTorch
from ..workers.channel import Message

BOTTLENECK_SHARE = 0.25
"""A family of operators with this share of the reference's estimated time is its bottleneck."""
ELEMENTWISE_SHARE = 0.5
"""The same for elementwise work, which surrounds most kernels and is seldom their purpose."""
GLUE_SHARE = 0.10
"""Share of a bottleneck's time that torch may spend on the same family; a last sum over partial sums takes less."""
MOST = 1 / 3
"""Share of the reference's time that torch may spend on elementwise work and reductions the reference lacks."""
SMALL_BYTES = 4096
"""Families that move at most this many bytes are glue, so that tiny workloads do not decide."""
READABLE_BYTES = 4096
"""Reading this many bytes back into Python is a matter of sizes and flags, not of the work."""
START_MARGIN = 1.1
"""By how much torch's work in a candidate may exceed what it does in the user's function as it stands."""
_RATE = 10.0
_HALF_RATE = 100.0
"""Operations of a matrix product, by operand size in bytes, in the time in which one byte moves: typical of
today's devices."""
_FOLDABLE = ("elementwise", "reductions")


class Operator(BaseModel):
    """One torch operator in one call of a model; all its dispatches together."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    kind: str
    """'free' (allocation, fills), 'layout' (copies of the same values), 'compute', 'leaving' (`Tensor.numpy`)."""
    family: str
    """'products', 'convolutions', 'attention', 'softmax', 'normalizations', 'reductions', 'elementwise', ..."""
    element_bytes: int = Field(ge=0)
    """Bytes of the widest element type that it reads."""
    calls: int = Field(gt=0)
    flops: float = Field(ge=0, allow_inf_nan=False)
    matrix_flops: float = Field(ge=0, allow_inf_nan=False)
    bytes: float = Field(ge=0, allow_inf_nan=False)
    """Bytes read and written by all dispatches."""
    largest_bytes: float = Field(ge=0, allow_inf_nan=False)
    """Bytes of the dispatch that moves the most."""


def operators_of(call: Callable[[], object]) -> list[Message]:
    """Return the fields of an `Operator` for each torch operator that a call dispatches, pool threads included.

    For a call that is compiled already, and never while anything is timed.
    """
    from ..profiling import op_counter

    _, seen = op_counter.observe(call)
    return op_counter.grouped(seen)


def torch_violation(
    candidate: Sequence[Operator],
    reference: Sequence[Operator],
    allow_torch: AllowTorch,
) -> Rejection | None:
    """Check the rule 'torch-operator': torch does more of a candidate's work than the policy allows."""
    if allow_torch is AllowTorch.ALL:
        return None
    for operator in candidate:
        if operator.kind == LEAVING_KIND and operator.bytes > READABLE_BYTES:
            return _rejection(
                f"Tensor.{operator.name}",
                f"{operator.bytes / 1e6:.3g} MB of tensors leave torch on each call; "
                "compute on them in the kernel itself",
            )
    if allow_torch is AllowTorch.NONE:
        for operator in candidate:
            if operator.kind in (COMPUTE, LAYOUT):
                return _rejection(
                    operator.name,
                    "with --allow-torch none only the kernel computes and copies; do it there, or allow glue",
                )
        return None
    return _beyond_glue(candidate, reference, _Estimate())


class _Estimate:
    """Estimates an operator's time, in units of a byte moved: its bytes or its products, whichever takes longer."""

    def of(self, operator: Operator) -> float:
        return max(operator.bytes, operator.matrix_flops / (_HALF_RATE if operator.element_bytes <= 2 else _RATE))

    def families(self, operators: Sequence[Operator]) -> dict[str, float]:
        """Return the time by family, without free operators."""
        times: dict[str, float] = defaultdict(float)
        for operator in operators:
            if operator.kind in (COMPUTE, LAYOUT):
                times[operator.family] += self.of(operator)
        return times

    def fused(self, operators: Sequence[Operator]) -> dict[str, float]:
        """Return the same with elementwise work no heavier than its largest operator: a chain fuses into one pass."""
        times = self.families(operators)
        passes = [operator.largest_bytes for operator in operators if operator.family == "elementwise"]
        return {**times, "elementwise": max(passes)} if passes else times


def _beyond_glue(candidate: Sequence[Operator], reference: Sequence[Operator], estimate: _Estimate) -> Rejection | None:
    """Allow almost nothing in the bottleneck's families; of others, allow what the reference does.

    Families, not single operators, are compared: a product cut into a hundred small ones is one product.
    """
    theirs, fused = estimate.families(reference), estimate.fused(reference)
    total = sum(fused.values())
    bottleneck = _bottleneck(fused)
    moved: dict[str, float] = defaultdict(float)
    for item in candidate:
        moved[item.family] += item.bytes
    beyond: dict[str, float] = {}
    for family, time in estimate.families(candidate).items():
        if moved[family] <= SMALL_BYTES:
            continue
        names = _names(candidate, family)
        if family in bottleneck:
            # Copies stand for all that they can do.
            alike = MOVING if family == LAYOUT else (family,)
            if time > GLUE_SHARE * sum(theirs.get(item, 0.0) for item in alike):
                share = sum(fused.get(item, 0.0) for item in alike) / total
                kind = "operators that move elements" if family == LAYOUT else family
                return _rejection(
                    names,
                    f"{kind} are where the reference's time goes ({share:.0%} by estimate), and torch would do them "
                    "for the kernel; write them in the kernel, or allow it with --allow-torch all",
                )
        elif family in _FOLDABLE:
            beyond[family] = max(0.0, time - theirs.get(family, 0.0))
        elif family != LAYOUT and time > max(GLUE_SHARE * total, 1.1 * theirs.get(family, 0.0)):
            return _rejection(
                names,
                "the reference does nothing of the kind at this cost, so it stands for the kernel's own work; write "
                "it in the kernel, or allow it with --allow-torch all",
            )
    if sum(beyond.values()) > MOST * sum(theirs.values()):
        return _rejection(
            ", ".join(_names(candidate, family) for family, time in beyond.items() if time),
            "torch would take a third of the reference's time or more for work that the reference does not have, so "
            "it stands for the kernel's own; write it in the kernel, or allow it with --allow-torch all",
        )
    return None


def families_of_start(candidate: Sequence[Operator], start: Sequence[Operator]) -> frozenset[str]:
    """Return the families of operators in which torch does no more for a candidate than in the user's function as it
    stands: these are no attempt to let torch do the work. Both are counted on the same inputs."""
    estimate = _Estimate()
    theirs, moved = estimate.families(start), estimate.families(candidate)
    return frozenset(family for family, time in moved.items() if time <= START_MARGIN * theirs.get(family, 0.0))


def said_of_start(candidate: Sequence[Operator], families: Collection[str], taken: str = "") -> str:
    """Return what a report says of torch's work in families that were allowed by the start."""
    own = [item for item in candidate if item.family in families and item.kind in (COMPUTE, LAYOUT)]
    names = ", ".join(sorted({item.name for item in own}))
    moved = sum(item.bytes for item in own) / 1e6
    return (
        f"torch does more than glue ({names}: {moved:.3g} MB{taken} of a call), and no more than in the function as it "
        "stands"
    )


def reference_shares(reference: Sequence[Operator]) -> tuple[dict[str, float], set[str]]:
    """Return the share of each family of operators in the reference's estimated time, and those that limit it."""
    fused = _Estimate().fused(reference)
    total = sum(fused.values()) or 1.0
    return {family: time / total for family, time in fused.items()}, _bottleneck(fused)


def _bottleneck(fused: Mapping[str, float]) -> set[str]:
    """Return the families that limit the reference; copies are among them where copies can do one of these."""
    total = sum(fused.values())
    found = {
        family
        for family, time in fused.items()
        if time >= (ELEMENTWISE_SHARE if family == "elementwise" else BOTTLENECK_SHARE) * total
        or time == max(fused.values())
    }
    return found | ({LAYOUT} if found & MOVING else set())


def _names(operators: Sequence[Operator], family: str) -> str:
    return ", ".join(
        sorted({operator.name for operator in operators if operator.family == family and operator.kind != FREE})
    )


def _rejection(operators: str, why: str) -> Rejection:
    return Rejection(rule="torch-operator", where=f"{operators}, seen in one call", why=why)
