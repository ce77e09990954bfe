"""The text for a model about a turn: metrics and failures in words, the same words for the same values."""

from __future__ import annotations

from collections.abc import Sequence

from ...core import DeviceKernel, Evaluation, KernelProfile, Problem, Profile, Status
from ...core.baselines import against_text
from ..analysis import Analysis
from ..turn import Attempt, Turn
from .context import gist, last_lines

RECENT = 6
"""Number of turns that are described in full; earlier ones get a line each."""
SHOWN_KERNELS = 6
"""Number of the profiler's kernels that are listed, the longest first."""

_ADVICE = {
    Status.COMPILE_ERROR: "fix what the compiler names; read_guide shows what the language accepts",
    Status.RUNTIME_ERROR: "fix what the exception names; explain_error shows the lines around it",
    Status.WRONG_VALUE: "the arithmetic, a mask, an index or a missing synchronization is wrong",
    Status.WRONG_SHAPE: "return the shape of the reference",
    Status.WRONG_DTYPE: "return the dtype of the reference",
    Status.TIMEOUT: "a loop does not end, or the compiler takes too long: use smaller tiles or less unrolling",
    Status.CRASHED: "an access out of bounds is the likeliest reason: check masks and indices",
    Status.REJECTED: "compute with the kernel itself, and leave the measurement alone",
}


def device_text(profile: Profile) -> str:
    """Describe the device, its measured ceilings and its limits."""
    ceilings = profile.ceilings
    lines = [
        f"{profile.device}: {ceilings.cores} {'multiprocessors' if profile.limits else 'cores'}",
        f"measured: copy bandwidth {_digits(ceilings.copy_gb_s)} GB/s, "
        f"matrix rate {_digits(ceilings.matrix_gflop_s)} GFLOP/s",
    ]
    if limits := profile.limits:
        lines.append(
            f"compute capability {limits.capability / 10:.1f}; a block may take {limits.shared_bytes // 1024} KiB of "
            f"shared memory; {limits.registers} registers and {limits.threads} threads per multiprocessor"
        )
    return "\n".join(lines)


def workload_text(problem: Problem) -> str:
    """Describe the sizes at which a kernel is checked and timed."""
    if not problem.sizes:
        return f"{problem.name} at the sizes that the reference sets"
    sizes = ", ".join(f"{name} = {value}" for name, value in problem.sizes.items())
    return f"{problem.name} with {sizes} in place of the reference's values; its other sizes as they are"


def precision_text(evaluation: Evaluation) -> str:
    """Say that TF32 is allowed, where it is: the instructions say that it is not."""
    allowed = evaluation.environment.get("tf32", "off")
    if allowed == "off":
        return ""
    return (
        f"; here the reference computes {allowed} in TF32, as PyTorch does by default, and a kernel may do the same: "
        "it is compared within a few times the error that TF32 has there"
    )


def work_text(profile: Profile) -> str:
    """Describe what the reference computes, and the floor under its time."""
    return "\n".join(
        [
            f"work: {_digits(profile.flops / 1e6)} MFLOP, "
            f"{_digits(profile.matrix_flops / 1e6)} of them in matrix products; "
            f"at least {_digits(profile.min_bytes / 1e6)} MB must move; {_digits(profile.intensity)} FLOP per byte",
            f"floor: {_digits(profile.floor_ms)} ms ({_digits(profile.memory_floor_ms)} for memory, "
            f"{_digits(profile.compute_floor_ms)} for matrix products)",
            f"operators of the reference: {', '.join(profile.operators) or 'unknown'}",
        ]
    )


def roofline_text(profile: Profile, evaluation: Evaluation) -> str:
    """Describe a measured kernel's position between the reference and the floor."""
    lines = [work_text(profile), measured_text(evaluation)]
    if evaluation.latency_ms:
        lines.append(
            f"that is {evaluation.latency_ms / profile.floor_ms:.2f} times the floor, "
            f"{_digits(profile.min_bytes / evaluation.latency_ms / 1e6)} GB/s, "
            f"{_digits(profile.flops / evaluation.latency_ms / 1e6)} GFLOP/s"
        )
    if evaluation.cores_used is not None:
        lines.append(f"{evaluation.cores_used:.1f} of {profile.ceilings.cores} cores were busy")
    if evaluation.kernel_profile is not None:
        lines += _ran(evaluation.kernel_profile)
    return "\n".join(lines)


def _ran(found: KernelProfile) -> list[str]:
    """Describe one profiled call, and Nsight Compute's counters."""
    if not found.kernels:
        return ["in one call the profiler saw nothing run"]
    share = found.own_share or 0.0
    lines = [f"in one call the profiler saw {_digits(found.time_ms)} ms, {share:.0%} of it in the kernel's own code:"]
    lines += [f"- {_kernel(one)}" for one in found.kernels[:SHOWN_KERNELS]]
    if rest := found.kernels[SHOWN_KERNELS:]:
        lines.append(f"- {len(rest)} more: {_digits(sum(one.time_ms for one in rest))} ms")
    if found.counters:
        counters = ", ".join(f"{name} {_digits(value)}" for name, value in found.counters.items())
        lines.append(f"Nsight Compute, of its own kernels: {counters}")
    return lines


def _kernel(one: DeviceKernel) -> str:
    parts = [f"{one.short_name}{'' if one.own else ' (library)'}: {_digits(one.time_ms)} ms"]
    if one.launches > 1:
        parts.append(f"{one.launches} launches")
    if one.blocks is not None and one.threads is not None:
        parts.append(f"{one.blocks} blocks of {one.threads} threads")
    if one.registers is not None:
        spilled = f" and {one.spills} bytes spilled" if one.spills else ""
        parts.append(f"{one.registers} registers{spilled} per thread")
    if one.shared_bytes:
        parts.append(f"{_digits(one.shared_bytes / 1024)} KiB of shared memory")
    if one.occupancy is not None:
        parts.append(f"occupancy {one.occupancy:.0%}" + (f" limited by {one.limited_by}" if one.occupancy < 1 else ""))
    return ", ".join(parts)


def measured_text(evaluation: Evaluation) -> str:
    """Describe one evaluation in a line."""
    if not evaluation.ok:
        return failure_text(evaluation)
    speedup = evaluation.speedup
    if evaluation.latency_ms is None or speedup is None or evaluation.reference is None:
        return f"correct; {evaluation.message or 'not timed'}"
    against = f"the reference's {evaluation.reference.median_ms:.4g} ms: speedup {speedup}"
    text = f"correct: {evaluation.latency_ms:.4g} ms against {against}"
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
    lines.append(f"hint: {_ADVICE[evaluation.status]}")
    return "\n".join(lines)


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


def history_text(turns: Sequence[Turn], recent: int = RECENT) -> str:
    """Describe the past turns and their results."""
    if not turns:
        return "nothing was tried so far"
    early, late = turns[:-recent] if recent else turns, turns[-recent:] if recent else ()
    return "\n".join([*(_outcome(turn) for turn in early), *(_turn_text(turn) for turn in late)])


def _turn_text(turn: Turn) -> str:
    lines = [_outcome(turn)]
    if turn.proposal and turn.proposal.rationale:
        lines.append(f"  idea: {turn.proposal.rationale}")
    lines += [f"  an attempt failed: {gist(attempt.error)}" for attempt in turn.attempts if attempt.error]
    if turn.found is not None and turn.found.evaluation.config:
        lines.append(f"  parameters: {dict(turn.found.evaluation.config)}")
    return "\n".join(lines)


def _outcome(turn: Turn) -> str:
    if turn.found is None:
        came = "nothing was correct"
    else:
        gain = turn.before.latency_ms / turn.found.latency_ms
        came = f"{turn.found.latency_ms:.4g} ms, {gain:.3f} times as fast as the kernel that it began with"
        came += ", the best so far" if turn.improved else ""
    return f"turn {turn.number}: {turn.strategy} ({turn.analysis.category}): {came}"


def _digits(value: float) -> str:
    """Return four digits, without an exponent."""
    return f"{float(f'{value:.4g}'):.12g}"
