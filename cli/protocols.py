"""By which rules `evaluate` judges, and where it files the verdicts. The help needs it, so it imports nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from ..evaluators.kernelbench.precision import Precision

if TYPE_CHECKING:
    from .request import Request

PERF_TRIALS = 100
"""As many as KernelBench times."""


class EvaluationProtocol(StrEnum):
    STRICT = "strict"
    KERNELBENCH = "kernelbench"
    BOTH = "both"


@dataclass(frozen=True)
class ProtocolOptions:
    """The options of `evaluate` that belong to protocols."""

    protocol: EvaluationProtocol | None = None
    """None: 'strict', or 'kernelbench' with a run folder."""
    run_folder: Path | None = None
    sample_id: int | None = None
    precision: Precision | None = None
    perf_trials: int | None = None

    @property
    def chosen(self) -> EvaluationProtocol:
        """What is asked for, or follows from the other options."""
        return self.protocol or (EvaluationProtocol.KERNELBENCH if self.run_folder else EvaluationProtocol.STRICT)

    @property
    def strict(self) -> bool:
        return self.chosen is not EvaluationProtocol.KERNELBENCH

    @property
    def kernelbench(self) -> bool:
        return self.chosen is not EvaluationProtocol.STRICT

    def check(self, request: Request) -> None:
        """Raise `OptionError` for what cannot be done."""
        from ..core.errors import OptionError

        if self.kernelbench and request.machines.remote(request.device) is not None:
            raise OptionError("KernelBench's protocol runs on this machine; leave --evaluator out, or --protocol")
        if request.kernel is None and self.run_folder is None:
            raise OptionError("give --kernel REF, or --run-folder DIR for all kernels in it; see --help")
        if request.kernel is None and request.problem:
            raise OptionError("--problem names one problem; the files of a run folder name their own")
        if self.sample_id is not None and self.run_folder is None:
            raise OptionError("--sample-id names a kernel of a run folder; add --run-folder DIR")
        if self.sample_id is not None and self.sample_id < 0:
            raise OptionError(f"--sample-id must be 0 or above, not {self.sample_id}")
        if self.perf_trials is not None and self.perf_trials < 1:
            raise OptionError(f"--perf-trials must be 1 or above, not {self.perf_trials}")
        belong = {"--run-folder": self.run_folder, "--precision": self.precision, "--perf-trials": self.perf_trials}
        for option, value in belong.items():
            if value is not None and not self.kernelbench:
                raise OptionError(f"{option} belongs to KernelBench's protocol; add --protocol kernelbench or both")
