"""How kernels are judged and timed: options that several commands share, and the settings of evaluators."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from ...evaluators.remote.options import CPU
from ...evaluators.settings import AllowTorch, Precision, Sandbox, Settings
from .option import Options, mistake, option

TRUST = "Trust"


class Baseline(StrEnum):
    """Other ways to run the reference."""

    COMPILE = "compile"
    MAX_AUTOTUNE = "max-autotune"


class Against(StrEnum):
    """Baseline of a target speedup."""

    STRICT = "strict"
    DEFAULT = "default"
    COMPILE = "compile"


@dataclass(frozen=True, kw_only=True)
class SandboxOptions(Options):
    """How kernels are isolated from the rest of the machine."""

    sandbox: Sandbox = option(
        Sandbox.AUTO,
        "Isolation of a kernel: bwrap (bubblewrap), landlock, none; auto takes the first that works.",
        TRUST,
        trusted=True,
    )


@dataclass(frozen=True, kw_only=True)
class TrustOptions(SandboxOptions):
    """How strictly kernels are evaluated."""

    allow_torch: AllowTorch | None = option(
        None,
        "Which torch operators a kernel may call: none, glue (layout, allocation, and operators outside "
        "of the bottleneck), or all. By default all for a module of your own and for recorded workloads, whose result "
        "names them, and glue for KernelBench's problems.",
        TRUST,
        trusted=True,
    )


@dataclass(frozen=True, kw_only=True)
class QuickOptions(Options):
    """How thoroughly kernels are evaluated."""

    quick: bool = option(
        False,
        "A quick first look: timings of 0.1 s that ignore other load, and on a CPU no proof by replayed launches, so "
        "a kernel counts even if it is unproven.",
        TRUST,
        trusted=True,
    )


@dataclass(frozen=True, kw_only=True)
class ProofOptions(TrustOptions, QuickOptions):
    """Proof of a kernel."""

    require_replay: bool = option(
        True,
        "Accept kernels whose launches could not be replayed without their Python: ok instead of unproven.",
        TRUST,
        trusted=True,
    )


@dataclass(frozen=True, kw_only=True)
class TimingOptions(ProofOptions):
    """How kernels are timed."""

    graph: bool = option(False, "Time kernel and reference as captured CUDA graphs, on a GPU only.", TRUST)
    precision: Precision = option(
        Precision.FP32,
        "How exactly the reference computes, and the kernel must: fp32 (TF32 is off), or default (as PyTorch does by "
        "default, with convolutions in TF32 on a GPU).",
        TRUST,
        trusted=True,
    )
    baseline: tuple[Baseline, ...] = option(
        (),
        "Also time the reference as compiled by torch: compile, max-autotune; may be repeated.",
        TRUST,
        metavar="NAME",
    )

    def check_device(self, device: str) -> None:
        """Raise `OptionError` for CUDA graphs on a CPU."""
        super().check_device(device)
        if self.graph and device == CPU:
            raise mistake("`graph` captures CUDA graphs, and the device is the CPU", "leave it out, or use a GPU")


@dataclass(frozen=True, kw_only=True)
class SanitizeOptions(Options):
    """Whether compute-sanitizer checks the fastest kernels of a run; only on a GPU."""

    sanitize: bool = option(
        True,
        "Skip NVIDIA's compute-sanitizer in final checks on a GPU, where it takes up to a minute per launch plan.",
        TRUST,
        trusted=True,
    )


@dataclass(frozen=True, kw_only=True)
class TargetOptions(TimingOptions):
    """Baseline of the target."""

    against: Against | None = option(
        None,
        "Baseline of the target speedup: strict (eager PyTorch in fp32), default (eager PyTorch as it ships), or "
        "compile (torch.compile). By default the reference that `precision` chooses: strict, or default.",
        TRUST,
    )

    @property
    def target_baseline(self) -> Against:
        """The requested baseline, or the reference."""
        if self.against is not None:
            return self.against
        return Against.DEFAULT if self.precision is Precision.DEFAULT else Against.STRICT

    def check(self) -> None:
        """Raise `OptionError` for a baseline that is not measured."""
        super().check()
        if self.against is Against.STRICT and self.precision is Precision.DEFAULT:
            raise mistake(
                "`against` strict is eager PyTorch in fp32, which is not timed with `precision` default",
                "leave one of them out",
            )


@dataclass(frozen=True)
class Conditions:
    """The conditions under which a kernel is judged, which identify a run: plain values, read from options once."""

    allow_torch: AllowTorch | None = None  # decided by the problem
    graph: bool = False
    precision: Precision = Precision.FP32
    against: str = Against.STRICT.value
    """The baseline of the target speedup; the reference without a target."""
    beside_compile: bool = False
    """Whether `torch.compile` is timed, on request or as the target's baseline."""
    proof: str = "replayed"
    """How a kernel is proven: see `RunRecord`."""

    @classmethod
    def of(cls, options: Options) -> Conditions:
        """Return the conditions that these options set; others have their defaults."""
        timed = options if isinstance(options, TimingOptions) else TimingOptions()
        aimed = timed if isinstance(timed, TargetOptions) else TargetOptions(precision=timed.precision)
        against = aimed.target_baseline
        return cls(
            allow_torch=options.allow_torch if isinstance(options, TrustOptions) else timed.allow_torch,
            graph=timed.graph,
            precision=timed.precision,
            against=against.value,
            beside_compile=Baseline.COMPILE in timed.baseline or against is Against.COMPILE,
            proof=_proof(options),
        )


def _proof(options: Options) -> str:
    if isinstance(options, QuickOptions) and options.quick:
        return "quick"
    return "as it runs" if isinstance(options, ProofOptions) and not options.require_replay else "replayed"


def settings_of(options: TrustOptions, settings: Settings) -> Settings:
    """The settings of an evaluator, with the caller's options in them."""
    timed = options if isinstance(options, TimingOptions) else TimingOptions()
    compiled = isinstance(timed, TargetOptions) and timed.against is Against.COMPILE
    baselines = [*timed.baseline, *([Baseline.COMPILE] if compiled else [])]
    found = replace(
        settings,
        allow_torch=options.allow_torch,
        require_replay=not isinstance(options, ProofOptions) or options.require_replay,
        sanitize=isinstance(options, SanitizeOptions) and options.sanitize,
        sandbox=options.sandbox,
        graph=timed.graph,
        precision=timed.precision,
        baselines=tuple(dict.fromkeys(item.value for item in baselines)),
        required_baseline=Baseline.COMPILE.value if compiled else None,
    )
    return found.quick() if isinstance(options, QuickOptions) and options.quick else found
