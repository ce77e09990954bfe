"""The target that IREE compiles for, and the driver that runs the result."""

from __future__ import annotations

import hashlib
import importlib.util
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from ...core import MlirProblem, Target
from ...core.extras import require_extra

COMPILER, RUNTIME = "iree-base-compiler", "iree-base-runtime"
CHIPS = {Target.CPU: "host", Target.CUDA: "sm_80"}
"""Compiled for by default: the package has no CUDA target between sm_89 and sm_120, and code for sm_80 runs on both."""
MOST_REPEATS = 32
REPEATED_FLOPS = 1e11
"""Operations of a timed call on a GPU: small ones take less time than the call around them."""
_AS_WRITTEN = ("--iree-input-demote-f64-to-f32=false",)
"""By default IREE computes double precision in single."""
_QUIET = (
    # Without names and positions in it, equal code is equal bytes.
    "--iree-hal-executable-debug-level=0",
    "--iree-llvmcpu-debug-symbols=false",
    "--iree-vm-bytecode-module-strip-source-map=true",
)


@dataclass(frozen=True)
class IreeTarget:
    """A device such as 'cpu' or 'cuda:1', and the chip whose instructions are used, 'host' or 'sm_80'."""

    device: str = "cpu"
    chip: str = ""
    """By default that of `CHIPS`."""
    repeats: int = 1
    """Runs of each dispatch in a call."""

    @property
    def on_cpu(self) -> bool:
        """Whether it is the processor."""
        return Target.of_device(self.device) is Target.CPU

    @property
    def named_chip(self) -> str:
        """The chip, the default one where none was named."""
        return self.chip or CHIPS[Target.of_device(self.device)]

    @property
    def driver(self) -> str:
        """The runtime's name of what runs it."""
        return "local-task" if self.on_cpu else "cuda"

    @property
    def visible(self) -> str | None:
        """The only GPU that a process sees which uses this device, for CUDA_VISIBLE_DEVICES; None for all."""
        return self.device.partition(":")[2] or None

    @property
    def flags(self) -> tuple[str, ...]:
        """The compiler's options, as a command line has them."""
        if self.on_cpu:
            return ("--iree-hal-target-backends=llvm-cpu", f"--iree-llvmcpu-target-cpu={self.named_chip}", *_AS_WRITTEN)
        return ("--iree-hal-target-device=cuda", f"--iree-cuda-target={self.named_chip}", *_AS_WRITTEN)

    @property
    def measured_flags(self) -> tuple[str, ...]:
        """The options of a module that is measured."""
        repeated = (f"--iree-hal-benchmark-dispatch-repeat-count={self.repeats}",) if self.repeats > 1 else ()
        return (*self.flags, *_QUIET, *repeated)

    @property
    def host_key(self) -> str:
        """The processor that 'host' means on this machine; empty for a named chip."""
        if self.named_chip != "host":
            return ""
        path = Path("/proc/cpuinfo")
        lines = path.read_text().splitlines() if path.exists() else []
        told = sorted({line for line in lines if line.startswith(("model name", "flags", "Features"))})
        return hashlib.sha256("\n".join(told).encode()).hexdigest()


def repeats_on_gpu(problem: MlirProblem) -> int:
    """Return how often each dispatch runs in a call."""
    return max(1, min(MOST_REPEATS, int(REPEATED_FLOPS / problem.flops)))


def installed(package: str) -> str:
    """Return the version of one of IREE's packages; empty where it is not there."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def find_compiler() -> Path:
    """Return the compiler's program; raises `OptionError` where IREE's compiler is not installed."""
    _require("compiling MLIR", "iree.compiler")
    found = importlib.util.find_spec("iree.compiler")
    assert found is not None and found.submodule_search_locations is not None
    return Path(found.submodule_search_locations[0]) / "_mlir_libs" / "iree-compile"


def require_runtime() -> None:
    """Raise `OptionError` where IREE's runtime is not installed."""
    _require("running MLIR", "iree.runtime")


def _require(what: str, module: str) -> None:
    """Look for the parent first: a part of it cannot be looked for without."""
    for item in ("iree", module):
        require_extra(what, item, "iree")
