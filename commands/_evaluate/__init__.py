"""Parts of `evaluate`: the options; submodules evaluate a kernel, a run folder or a Solution."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from ...core.errors import OptionError
from ...evaluators.kernelbench.precision import KernelBenchPrecision
from ...runtime.devices import CPU
from ...runtime.options.groups import FunctionOptions, MachineOptions, ProblemOptions
from ...runtime.options.option import described, option
from ...runtime.options.trust import TRUST, SanitizeOptions, TimingOptions

PROTOCOL = "Protocol"
PERF_TRIALS = 100
"""Number of calls that KernelBench times."""


class EvaluationProtocol(StrEnum):
    """The rules of an evaluation."""

    STRICT = "strict"
    KERNELBENCH = "kernelbench"
    BOTH = "both"


@dataclass(frozen=True, kw_only=True)
class Options(TimingOptions, SanitizeOptions, MachineOptions, ProblemOptions, FunctionOptions):
    """Check a kernel against its reference and time it, once."""

    kernel: str | None = field(  # type: ignore[assignment]
        default=None,
        kw_only=False,
        metadata=described(
            "Kernel to evaluate: a path, level2/2_10.py, 2_10, a Solution, or a function FILE::NAME.",
            metavar="REF",
            trusted=True,
            argument=True,
        ),
    )
    sanitize: bool = option(
        False,
        "On a GPU, let NVIDIA's compute-sanitizer, if installed, look for out-of-bounds accesses, reads of "
        "uninitialized memory and races in shared memory; takes up to a minute.",
        TRUST,
        trusted=True,
    )
    protocol: EvaluationProtocol | None = option(
        None,
        "The rules: strict, kernelbench (as KernelBench itself evaluates), or both side by side. By default strict, "
        "and kernelbench with `run_folder`.",
        PROTOCOL,
        trusted=True,
    )
    run_folder: Path | None = option(
        None,
        "A KernelBench run folder: the kernel and its result are filed there. Without `kernel`, every kernel in it "
        "that has no result yet is evaluated.",
        PROTOCOL,
        metavar="DIR",
    )
    sample_id: int | None = option(
        None, "Sample number of the kernel in the run folder; 0 by default.", PROTOCOL, at_least=0
    )
    kernelbench_precision: KernelBenchPrecision | None = option(
        None, "Dtype of weights and inputs in KernelBench's protocol; fp32 by default.", PROTOCOL, trusted=True
    )
    perf_trials: int | None = option(
        None, "How many calls KernelBench's protocol times; 100 by default.", PROTOCOL, at_least=1
    )

    @property
    def chosen_protocol(self) -> EvaluationProtocol:
        """The requested protocol, or the one that follows from the other options."""
        return self.protocol or (EvaluationProtocol.KERNELBENCH if self.run_folder else EvaluationProtocol.STRICT)

    @property
    def strict(self) -> bool:
        """Whether the strict protocol is used."""
        return self.chosen_protocol is not EvaluationProtocol.KERNELBENCH

    @property
    def kernelbench(self) -> bool:
        """Whether KernelBench's protocol is used."""
        return self.chosen_protocol is not EvaluationProtocol.STRICT

    def check_device(self, device: str) -> None:
        """Raise `OptionError` for a CPU, which compute-sanitizer does not support."""
        super().check_device(device)
        if self.sanitize and device == CPU:
            raise OptionError("compute-sanitizer needs a GPU, and the device is the CPU", "leave it out, or use a GPU")

    def check(self) -> None:
        """Raise `OptionError` for contradictory options."""
        super().check()
        if self.kernelbench and self.remote is not None:
            raise OptionError("KernelBench's protocol runs on this machine", "leave `evaluator` out, or `protocol`")
        if self.kernel is None and self.run_folder is None:
            raise OptionError("there is nothing to evaluate", "give `kernel`, or `run_folder` for all kernels in it")
        if self.kernel is None and self.problem:
            raise OptionError("`problem` names one problem", "leave it out: the files of a run folder name their own")
        if self.sample_id is not None and self.run_folder is None:
            raise OptionError("`sample_id` names a kernel of a run folder", "add `run_folder`")
        belong = {
            "run_folder": self.run_folder,
            "kernelbench_precision": self.kernelbench_precision,
            "perf_trials": self.perf_trials,
        }
        for name, value in belong.items():
            if value is not None and not self.kernelbench:
                raise OptionError(
                    f"`{name}` belongs to KernelBench's protocol", "set `protocol` to kernelbench or both"
                )
