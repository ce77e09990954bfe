"""The text for a model about a turn: metrics and failures in words, the same words for the same values."""

from __future__ import annotations

from collections.abc import Sequence

from ...core import Evaluation, Kernel, Problem, Profile, Status
from ...core.baselines import against_text
from ...core.causes.launches import FEW_WARPS
from ...core.causes.observed import COSTS
from ...core.text import digits, first_line
from ...core.turn_record import SkippedRule
from ..bottleneck import Analysis
from ..turn import Attempt, Candidate, Turn
from . import tensor_cores
from .changes import change_text
from .context import gist, last_lines
from .profiled_call import call_lines, times_text

RECENT = 6
"""Number of turns that are described in full; earlier ones get a line each."""
SKIPPED = "built-in rewrite rules that do not fit the kernel to improve (by hand the same may be possible), and why:"
REASON = 120
"""The most characters of the reason for which a rule does not fit."""

_ADVICE = {
    Status.COMPILE_ERROR: "fix what the compiler names; read_guide shows what the language accepts",
    Status.RUNTIME_ERROR: "fix what the exception names; explain_error shows the lines around it",
    Status.WRONG_VALUE: "the arithmetic or its precision, a mask, an index or a missing synchronization is wrong",
    Status.WRONG_SHAPE: "return the shape of the reference",
    Status.WRONG_DTYPE: "return the dtype of the reference",
    Status.TIMEOUT: "a loop does not end, or the compiler takes too long: use smaller tiles or less unrolling",
    Status.CRASHED: "an access out of bounds is the likeliest reason: check masks and indices",
    Status.UNPROVEN: "launch the same kernels at every call, whatever the values are, and read no tensor in Python",
    Status.REJECTED: "compute with the kernel itself, and leave the measurement alone",
    Status.NOT_MEASURED: "nothing is known of the kernel: remove the cause on the machine, and measure it again",
}


def workload_text(problem: Problem) -> str:
    """Describe the sizes at which a kernel is checked and timed."""
    if not problem.sizes:
        return f"{problem.name} at the sizes that the reference sets"
    sizes = ", ".join(f"{name} = {value}" for name, value in problem.sizes.items())
    return f"{problem.name} with {sizes} in place of the reference's values; its other sizes as they are"


def precision_text(evaluation: Evaluation) -> str:
    """Return a note if TF32 is allowed, since the instructions forbid it."""
    allowed = evaluation.environment.get("tf32", "off")
    if allowed == "off":
        return ""
    return (
        f"; here the reference computes {allowed} in TF32, as PyTorch does by default, and a kernel may do the same: "
        "it is compared within a few times the error that TF32 has there"
    )


def tolerance_text(evaluation: Evaluation) -> str:
    """Describe the allowed error, and the fraction of it that a measured kernel uses; empty without one."""
    checked = evaluation.correctness
    if checked is None:
        return ""
    absolute = checked.tolerance if checked.absolute_tolerance is None else checked.absolute_tolerance
    same = absolute == checked.tolerance
    text = f"tolerance: {absolute:g} absolute{' and' if same else f', {checked.tolerance:g}'} relative"
    if checked.own_errors is not None:
        text += f"; this kernel's largest error is {checked.own_errors[0]:.1e}"
    if checked.error_fp64 is not None and checked.torch_error_fp64 is not None:
        text += (
            f"; root mean square against fp64 {checked.error_fp64:.1e}, the reference's {checked.torch_error_fp64:.1e}"
        )
    return text


def work_text(profile: Profile) -> str:
    """Describe the work of the reference, and the lower bound of its time."""
    memory, compute = digits(profile.memory_floor_ms), digits(profile.compute_floor_ms)
    parts = f" ({memory} for memory; {compute} for {profile.product_precision})" if profile.matrix_flops else ""
    return "\n".join(
        [
            f"work: {digits(profile.flops / 1e6)} MFLOP, "
            f"{digits(profile.matrix_flops / 1e6)} of them in matrix products; "
            f"at least {digits(profile.min_bytes / 1e6)} MB must move; {digits(profile.intensity)} FLOP per byte",
            f"floor: {digits(profile.floor_ms)} ms{parts}",
            f"operators of the reference: {', '.join(profile.operators) or 'unknown'}",
        ]
    )


def roofline_text(profile: Profile, candidate: Candidate) -> str:
    """Describe a measured kernel's position between the reference and the floor."""
    lines, evaluation = [ran_text(profile, candidate)], candidate.evaluation
    if evaluation.latency_ms:
        moved = profile.min_bytes / evaluation.latency_ms / 1e6
        lines.append(
            f"that is {evaluation.latency_ms / profile.floor_ms:.2f} times the floor, at least {digits(moved)} GB/s "
            f"({moved / profile.ceilings.copy_gb_s:.0%} of a copy's), "
            f"{digits(profile.flops / evaluation.latency_ms / 1e6)} GFLOP/s"
        )
    if evaluation.cores_used is not None:
        lines.append(f"{evaluation.cores_used:.1f} of {profile.ceilings.cores} cores were busy")
    return "\n".join(lines)


def ran_text(profile: Profile, candidate: Candidate) -> str:
    """Describe the work, a kernel's time, and what ran, without the evidence of the bottleneck."""
    found = candidate.evaluation.kernel_profile
    lines = [work_text(profile), measured_text(candidate.evaluation)]
    if found is not None:
        lines += call_lines(found, profile)
    known = found is not None and any(item.own and item.tensor_cores is not None for item in found.kernels)
    if profile.limits and profile.matrix_flops and not known and (told := tensor_cores.by_source(candidate.kernel)):
        lines.append(told)
    return "\n".join(lines)


def measured_text(evaluation: Evaluation) -> str:
    """Describe one evaluation in a line."""
    if not evaluation.correct:
        return failure_text(evaluation)
    proof = "correct" if evaluation.ok else f"unproven ({evaluation.message})"
    speedup = evaluation.speedup
    if evaluation.latency_ms is None or speedup is None or evaluation.reference is None:
        return f"{proof}; {evaluation.message or 'not timed'}"
    against = f"the reference's {evaluation.reference.median_ms:.4g} ms: speedup {speedup}"
    text = f"{proof}: {evaluation.latency_ms:.4g} ms against {against}"
    for name, baseline in evaluation.baselines.items():
        over = evaluation.speedup_against(name)
        text += f"; against {against_text(name, evaluation.precision)}, {baseline.median_ms:.4g} ms: {over}"
    if evaluation.contention is not None:
        text += f" (other processes used {evaluation.contention:.1f} cores meanwhile: not to be trusted)"
    return text


def failure_text(evaluation: Evaluation, log: bool = False) -> str:
    """Describe a failure and its usual cause."""
    lines = [f"{evaluation.status}: {evaluation.message}"]
    if evaluation.config:
        lines.append(f"at {', '.join(f'{name}={value}' for name, value in evaluation.config.items())}")
    if log and (output := last_lines(evaluation.log)):
        lines += ["the last lines of its output:", output]
    lines.append(f"hint: {advice(evaluation.status)}")
    return "\n".join(lines)


def advice(status: Status) -> str:
    """Return common remedies for a failure."""
    return _ADVICE[status]


def attempt_text(attempt: Attempt, log: bool = True) -> str:
    """Describe why an attempt has to be repaired."""
    failures = [evaluation for evaluation in attempt.evaluations if not evaluation.ok]
    return "\n".join(failure_text(failure, log) for failure in failures[:2]) or attempt.error


def failed_text(attempts: Sequence[Attempt], log: bool = True) -> str:
    """Describe why the last of these attempts has to be repaired, and how the earlier ones failed."""
    earlier = [f"attempt {i} of this turn had failed too: {gist(a.error)}" for i, a in enumerate(attempts[:-1], 1)]
    return "\n".join([attempt_text(attempts[-1], log), *earlier])


def analysis_text(analysis: Analysis) -> str:
    """Describe the bottleneck and its evidence."""
    return "\n".join([f"{analysis.category}-bound", *(f"- {line}" for line in analysis.evidence)])


def reading_text(analysis: Analysis) -> str:
    """Describe the bottleneck by metrics only, without the details of `ran_text` that cost nothing."""
    lines = [f"- {line}" for line in analysis.evidence if FEW_WARPS not in line or COSTS in line]
    return "\n".join([f"by the metrics alone: {analysis.category}-bound", *lines])


def history_text(turns: Sequence[Turn], recent: int = RECENT, shown: Kernel | None = None) -> str:
    """Describe the past turns: the changes of each lane, and their results. `shown` is the kernel to improve now."""
    if not turns:
        return "nothing was tried so far"
    early, late = turns[:-recent] if recent else turns, turns[-recent:] if recent else ()
    lanes = any(turn.lane for turn in turns)
    outcomes = [_outcome(turn, lanes, shown) for turn in turns]
    return "\n".join([*outcomes[: len(early)], *map(_turn_text, late, outcomes[len(early) :])])


def skipped_text(skipped: Sequence[SkippedRule], most: int) -> str:
    """Describe which built-in rules do not apply to the kernel to improve, and why; at most `most` reasons."""
    names: dict[str, list[str]] = {}
    for rule in skipped:
        if not rule.failed:
            names.setdefault(first_line(rule.reason, REASON), []).append(rule.rule)
    if not names or not most:
        return ""
    reasons = [f"- {', '.join(rules)}: {reason}" for reason, rules in list(names.items())[:most]]
    more = [f"- {len(names) - most} more"] if len(names) > most else []
    return "\n".join([SKIPPED, *reasons, *more])


def _turn_text(turn: Turn, outcome: str) -> str:
    lines = [outcome]
    if turn.proposal and turn.proposal.rationale:
        lines.append(f"  idea: {turn.proposal.rationale}")
    if turn.kernel is not None and (changed := change_text(turn.before.kernel, turn.kernel)):
        lines.append(f"  change: {changed}")
    lines += [f"  an attempt failed: {gist(attempt.error)}" for attempt in turn.attempts if attempt.error]
    ran = turn.found.evaluation.kernel_profile if turn.found is not None else None
    if ran is not None and any(item.blocks is not None for item in ran.kernels):
        lines.append(f"  its kernels: {times_text(ran)}")
    if turn.found is not None and turn.found.evaluation.config:
        lines.append(f"  parameters: {dict(turn.found.evaluation.config)}")
    return "\n".join(lines)


def _outcome(turn: Turn, lanes: bool, shown: Kernel | None) -> str:
    if turn.found is None:
        came = "nothing was correct"
    else:
        gain = turn.before.latency_ms / turn.found.latency_ms
        came = f"{turn.found.latency_ms:.4g} ms, {gain:.3f} times as fast as the kernel that it began with"
        came += ", the best so far" if turn.improved else ""
        came += "; this is the kernel to improve now" if shown and turn.found.kernel.digest == shown.digest else ""
    where = f"turn {turn.number}, lane {turn.lane}" if lanes else f"turn {turn.number}"
    return f"{where}: {turn.strategy} ({turn.analysis.category}): {came}"
