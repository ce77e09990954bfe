"""Searches that ended, from verdicts that are made up."""

from __future__ import annotations

from pathlib import Path

from kernelwright.commands.tune.kernel import Result
from kernelwright.core import Config, Evaluation, Measurement, PythonKernel, SearchSpace, TorchProblem
from kernelwright.runtime.jobs import Job
from kernelwright.tuners.discovery import FoundSpace
from kernelwright.tuners.search import Found, Progress

from ..conftest import SCALE_KERNEL, SCALE_PROBLEM
from ..fakes import evaluation

KERNEL = PythonKernel.parse(SCALE_KERNEL, "scale")
SPACE = SearchSpace.of({"BLOCK": [4, 8]})
OTHER, OWN = Config({"BLOCK": 4}), Config({"BLOCK": 8})


def tuned(
    folder: Path,
    *finals: Evaluation,
    trials: tuple[Evaluation, ...] = (),
    kernel: PythonKernel = KERNEL,
    space: SearchSpace = SPACE,
) -> Result:
    progress, trials = Progress(), trials or tuple(final for final in finals if final.config)
    for trial in trials:
        progress.add(trial)
    found = Found(trials, finals, progress, "because")
    job = Job(kernel, TorchProblem("level1/1_999", "999_Scale", SCALE_PROBLEM), "cpu", "1_999.py")
    return Result(job=job, space=FoundSpace(space, "given"), found=found, folder=folder, tuner="portfolio", seed=0)


def timed(config: Config, *samples_ms: float, contention: float | None = None) -> Evaluation:
    made_up = evaluation(KERNEL, config, samples_ms[0], contention)
    return made_up.model_copy(update={"measurement": Measurement(samples_ms=samples_ms * 10)})
