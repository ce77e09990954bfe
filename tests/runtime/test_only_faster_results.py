"""What is brought back to the user's files is faster than the start in the final check, whatever trials looked like."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import pytest
from kernelwright.core import Config, Evaluation, Kernel, Problem, Profile
from kernelwright.evaluators.several_workloads import JudgingSeveral, SearchingSeveral, SeveralWorkloads
from kernelwright.runtime import runtime

from ..cli.commands import kernelwright
from ..fakes import PROFILE, evaluation
from ..user_packages import LINEAR, apply

PATH = "linear.py"


class MadeUp:
    """Times the user's code by its BLOCK_N: in trials a larger one is faster, in a contest only where `gains`."""

    gains = False

    def evaluate(
        self, problem: Problem, kernel: Kernel, configs: Iterable[Config], known: Sequence[Evaluation] = ()
    ) -> Iterator[Evaluation]:
        for config in configs:
            constants = kernel.bind(config).constants
            wrong = constants.keys() & {"THREADS", "TILE", "UNROLL"}  # what rules add
            yield evaluation(kernel, config, "wrong_value" if wrong else 80.0 / constants["BLOCK_N"])

    def compare(self, problem: Problem, kernel: Kernel, configs: Sequence[Config]) -> list[Evaluation]:
        return list(self.evaluate(problem, kernel, configs))

    def screen(self, problem: Problem, kernels: Sequence[Kernel]) -> Iterator[Evaluation]:
        for kernel in kernels:
            yield from self.evaluate(problem, kernel, [Config()])

    def contest(self, problem: Problem, kernels: Sequence[Kernel]) -> list[Evaluation]:
        found = [next(self.evaluate(problem, kernel, [Config()])) for kernel in kernels]
        if self.gains:
            return found
        return [item.model_copy(update={"measurement": found[0].measurement}) for item in found]

    def profile(self, problem: Problem) -> Profile:
        return PROFILE


class Gaining(MadeUp):
    gains = True


class MadeUpEvaluators:
    """Stands in for `runtime.evaluators.Evaluators`."""

    compilers = 1
    clock = staticmethod(time.monotonic)
    of: type[MadeUp] = MadeUp

    def __init__(self, *given: object) -> None:
        self._one: Any = self.of()
        self.pool = [SeveralWorkloads(self._one, self.of)]

    def start(self) -> None: ...

    def searcher(self, evaluator: object) -> Any:
        return SearchingSeveral(self._one, self.of)

    def judge(self, baselines: object, evaluator: object) -> Any:
        return JudgingSeveral(self._one, self.of)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None: ...


class GainingEvaluators(MadeUpEvaluators):
    of = Gaining


@pytest.mark.parametrize("faster", [False, True], ids=["as fast as the start", "faster"])
@pytest.mark.parametrize("more", [(), ("--dynamic", "rows=16..100")], ids=["workloads", "range"])
def test_a_patch_is_written_only_of_what_is_faster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: tuple[str, ...], faster: bool
) -> None:
    monkeypatch.setattr(runtime, "Evaluators", GainingEvaluators if faster else MadeUpEvaluators)
    folder = LINEAR.copied(tmp_path)
    function, reference, inputs = LINEAR.at(folder)
    given = ("--kernel", function, "--reference", reference, "--inputs", inputs, "--patch", "out.diff", *more)
    options = ("--device", "cpu", "--sandbox", "none", "--max-iterations", 2)
    run = kernelwright("optimize", *given, *options, cwd=folder)
    assert run.returncode == (0 if faster else 3), run.stdout + run.stderr
    trials = [json.loads(line) for path in folder.rglob("journal*.jsonl") for line in path.read_text().splitlines()]
    blocks = {item["evaluation"]["config"].get("BLOCK_N", 0) for item in trials if "evaluation" in item}
    assert max(blocks) > 2, "a trial looked faster"
    assert (folder / "out.diff").exists() is faster
    assert any(folder.glob("results/**/*optimized*.py")) is faster
    assert ("no speedup found; no patch written" in run.stdout + run.stderr) is not faster
    if faster:
        assert apply(folder / "out.diff", folder).returncode == 0
        assert "BLOCK_N = 2\n" not in (folder / PATH).read_text()
