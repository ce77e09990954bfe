"""The settings of an evaluation: time, memory, precision."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # what the command line imports must be light
    from ..core import Problem


class AllowTorch(StrEnum):
    """Which of torch's operators a candidate may call."""

    NONE = "none"
    """None that compute: allocation and views only."""
    GLUE = "glue"
    """Layout, allocation, and operators outside of the bottleneck."""
    ALL = "all"
    """All of them: nothing is checked."""


def torch_for(wanted: AllowTorch | None, problem: Problem) -> AllowTorch:
    """Return which of torch's operators a problem's kernels may call where the user wants this, or says nothing.

    What a user has may be fastest in torch's library; a benchmark's problem asks for a kernel.
    """
    return wanted or (AllowTorch.ALL if problem.is_own else AllowTorch.GLUE)


class Sandbox(StrEnum):
    """How a candidate is isolated from the rest of the machine."""

    AUTO = "auto"
    """The first of the following that works here, with a warning when it is none."""
    BWRAP = "bwrap"
    LANDLOCK = "landlock"
    NONE = "none"


class Precision(StrEnum):
    """How exactly the reference computes fp32, and a kernel must."""

    FP32 = "fp32"
    """In fp32: TF32 is off."""
    DEFAULT = "default"
    """As PyTorch does by default: convolutions in TF32, on a GPU."""


QUICK_S = 0.1
"""Seconds of samples in a first look."""


@dataclass(frozen=True)
class Sampling:
    """When a timing is precise enough.

    Samples are taken in chunks, candidate and reference interleaved, until the 95 % intervals of both medians are
    within `precision` or `seconds` have passed.
    """

    precision: float = 0.01
    seconds: float = 1.5
    min_samples: int = 20
    max_samples: int = 500
    chunk_s: float = 0.05
    """Maximum seconds of a chunk, fresh inputs and comparisons included where these leave the least samples."""
    chunks: int = 8
    """The maximum of samples is taken in at least this many chunks, each of which has inputs of its own."""
    quiet_timeout_s: float = 10.0
    """Seconds to wait for other processes to leave the processor idle before timing once more."""
    heeds_load: bool = True
    """On a CPU, whether a timing is disturbed where other processes use the cores, or its median is uncertain."""

    def quick(self) -> Sampling:
        """Return a sampling of at most 0.1 s that takes no notice of other processes."""
        return replace(
            self,
            seconds=min(self.seconds, QUICK_S),
            min_samples=min(self.min_samples, 5),
            max_samples=min(self.max_samples, 100),
            quiet_timeout_s=0.0,
            heeds_load=False,
        )


@dataclass(frozen=True)
class Limits:
    """Limits of a candidate."""

    compile_s: float = 120.0
    """Seconds for loading the source and the first call, in which most kernels compile."""
    call_s: float = 30.0
    """Seconds for each later step: a call, or a chunk of samples."""
    memory_gib: float = 8.0
    """Private memory of each process, beyond the fork server's."""
    file_gib: float = 8.0
    """The size of any file it writes."""


@dataclass(frozen=True)
class SearchSettings:
    """The evaluation of one of many configs in a search: quick, since finalists are evaluated again."""

    compilers: int = 1
    """Processes that compile ahead."""
    window: int = 1
    """Maximum number of configs that are in the compilers or wait for their measurement."""
    checks: int = 1
    """Comparisons with the reference, each with new inputs."""
    prune_factor: float = 2.0
    """A config whose first samples are all this many times slower than the best is pruned."""
    sampling: Sampling = field(
        default_factory=lambda: Sampling(
            precision=0.005, seconds=0.3, max_samples=50, chunk_s=0.01, chunks=1, quiet_timeout_s=3.0
        )
    )
    """In one chunk, if a kernel is fast: on a GPU a chunk's inputs take ten milliseconds, as long as thirty samples."""

    @classmethod
    def of(cls, compilers: int | None, cores: int, ahead: bool, adaptive: bool) -> SearchSettings:
        """Return settings for this many compilers, by default as many as the cores allow.

        Off a CPU, compilers work `ahead` of measurements: they get half of the cores where each choice depends on
        earlier results (`adaptive`), and four times as many configs are under way where it does not.
        """
        if compilers is None:
            compilers = max(1, cores // 2 if ahead and adaptive else cores)
        return cls(compilers, 4 * compilers if ahead and not adaptive else compilers)


class Lowering(StrEnum):
    """What torch's compiler makes of operators that torch's library has, too."""

    TEMPLATES = "templates"
    """Triton kernels."""
    LIBRARY = "library"
    """Convolutions of torch's library, in the layouts that the compiler chooses, unless convolutions are all there is,
    or all have one tap."""
    LIBRARY_AS_GIVEN = "library as given"
    """The same in the layouts of the reference, where the library may choose a more exact algorithm."""
    AS_COMPILED = "as compiled"
    """What `torch.compile` itself makes of them by default: products, convolutions and attention of the library."""

    @property
    def in_library(self) -> bool:
        """Whether templates compute all but convolutions."""
        return self in (Lowering.LIBRARY, Lowering.LIBRARY_AS_GIVEN)


@dataclass(frozen=True)
class Settings:
    """All settings of a local evaluation."""

    checks: int = 3
    """Comparisons with the reference, each with new weights and new inputs."""
    limits: Limits = field(default_factory=Limits)
    sampling: Sampling = field(default_factory=Sampling)
    second_workload: bool = True
    """Whether a correct kernel is checked at other sizes too, where the problem has some."""
    graph: bool = False
    """On a GPU, time candidate and reference as captured CUDA graphs, without launch overhead."""
    baselines: tuple[str, ...] = ()
    """Other ways to run the reference that are timed too: 'compile', 'max-autotune'. Cached ones are always
    reported, and PyTorch's defaults are always timed."""
    fresh_baselines: tuple[str, ...] = ()
    """Baselines that are timed again in every evaluation, even if a cached time exists."""
    required_baseline: str | None = None
    """One of these that a target is against: timed anew each time, and an `OptionError` where it does not compile."""
    precision: Precision = Precision.FP32
    allow_torch: AllowTorch | None = None
    """None to decide by the problem: see `torch_for`."""
    require_replay: bool = True
    """Whether a kernel counts only where its launches can be replayed without its Python; else it is unproven."""
    replay_on_cpu: bool = True
    """Whether launch plans are made on a CPU too, where each compiles the kernel's C code once more."""
    sanitize: bool = False
    """Whether NVIDIA's compute-sanitizer looks at what is replayed on a GPU: at the fastest of several that passes."""
    read_code: bool = False
    """Whether the machine code of own kernels on an NVIDIA GPU is read, for causes of lost time; 0.6 s a kernel."""
    sandbox: Sandbox = Sandbox.AUTO
    described_gpu: str = "H100"
    """The GPU that launchers see while an interpreter runs their kernels on a CPU."""
    search: SearchSettings | None = None
    """Evaluate configs for a search, without timing the reference; None evaluates each one fully."""

    def quick(self) -> Settings:
        """Return the settings of a first look: short timings while other work may run, without compute-sanitizer, and
        on a CPU no launch plans, so that a kernel counts as it is, unproven."""
        sampling = self.sampling.quick()
        quick = replace(self, sampling=sampling, replay_on_cpu=False, require_replay=False, sanitize=False)
        return quick.searching(self.search) if self.search else quick

    def searching(self, search: SearchSettings) -> Settings:
        """Return the settings of a search, whose trials heed other processes only where these settings do."""
        if not self.sampling.heeds_load:
            search = replace(search, sampling=search.sampling.quick())
        return replace(self, search=search)

    def torch_for(self, problem: Problem) -> AllowTorch:
        """Return what of torch a problem's kernels may call."""
        return torch_for(self.allow_torch, problem)

    def lowering(self, problem: Problem) -> Lowering:
        """Return what computes convolutions in a problem's first kernels: torch's library where its kernels may call
        all of torch, in torch's precision."""
        library = self.torch_for(problem) is AllowTorch.ALL and self.precision is Precision.DEFAULT
        return Lowering.LIBRARY if library else Lowering.TEMPLATES
