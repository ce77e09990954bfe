"""Settings of a session of `optimize` and `batch`, read from the options."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ...agent.stopping import StoppingCriteria
from ...core import Budget
from ...runtime.evaluators import Evaluators
from ...runtime.first_kernels import OpenProblem, open_problem
from ...runtime.jobs import Job
from ...runtime.options.groups import ReturnOptions, RunOptions
from ...runtime.options.option import made_of
from ...runtime.options.trust import Conditions
from ...runtime.proposers import ProposerSettings
from ...runtime.runtime import Runtime
from ...runtime.write_result import PatchDestination

MODEL_ITERATIONS = 5
"""Default number of turns of a language model, since each costs money. Rules end by themselves."""


@dataclass(frozen=True)
class SessionSettings:
    """How each kernel is optimized, and where its files go."""

    device: str
    results: Path
    resume: bool
    save: bool
    archive: bool
    """Whether the archive of earlier runs is used."""
    dataset: Path | None
    destination: PatchDestination
    criteria: StoppingCriteria
    proposer: ProposerSettings
    conditions: Conditions
    """How first kernels are judged."""
    find_job: Callable[[str], Job]
    """Returns the kernel of a reference."""
    find_open: Callable[[str], OpenProblem | None]
    """Returns the problem of a reference without a kernel."""
    open_evaluators: Callable[[], Evaluators]

    @classmethod
    def of(cls, options: RunOptions, runtime: Runtime) -> SessionSettings:
        """Read the options. Raises `OptionError` for contradictory options, and `DeviceError`."""
        device, proposer = runtime.device(options), ProposerSettings.of(options)
        by_model = proposer.choice.is_model
        returned = options if isinstance(options, ReturnOptions) else None
        return made_of(
            cls,
            options,
            device=device,
            destination=PatchDestination(returned.patch, returned.triton_cache) if returned else PatchDestination(),
            criteria=StoppingCriteria(
                target_speedup=options.target_speedup,
                against=options.target_baseline.value,
                max_iterations=options.max_iterations or (MODEL_ITERATIONS if by_model else None),
                min_improvement=options.min_improvement,
                beam=options.beam,
                budget=Budget(trials=options.max_trials, seconds=options.time_limit),
            ),
            proposer=proposer,
            conditions=Conditions.of(options),
            find_job=partial(runtime.joint_job, options, device=device),
            find_open=partial(open_problem, options, device=device, model=by_model),
            # A model's turn takes longer than reading the code, and the rules do not look at it.
            open_evaluators=runtime.evaluators(device, options.beam, options, read_code=by_model),
        )
