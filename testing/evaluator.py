"""What every evaluator must do, on a kernel that compiles in a second."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from ..core import Config, Evaluation, Evaluator, Judge, Kernel, Problem, ProblemError, Screener, Status, TorchProblem
from .scale import scale_kernel, scale_problem

AHEAD = 1024
"""Configs that an evaluator may draw before the first evaluation is known."""


class EvaluatorSuite:
    """What every evaluator must do. Override `evaluator`, and what describes the kernel on other devices."""

    @pytest.fixture
    def evaluator(self) -> Evaluator:
        """Return the evaluator, which the fixture closes where it must be."""
        raise NotImplementedError("override the fixture `evaluator` in your class")

    @pytest.fixture
    def problem(self) -> Problem:
        """Return what is computed: a `TorchProblem` whose forward is `x * self.weight`."""
        return scale_problem()

    @pytest.fixture
    def kernel(self) -> Kernel:
        """Return a right kernel for it."""
        return scale_kernel()

    @pytest.fixture
    def configs(self) -> Sequence[Config]:
        """Return three configs with which the kernel is right."""
        return [Config({"BLOCK": size}) for size in (4, 8, 16)]

    @pytest.fixture
    def broken(self) -> Config:
        """Return one with which it does not compile."""
        return Config({"BLOCK": 0})

    @pytest.fixture
    def wrong(self, kernel: Kernel) -> Kernel:
        """Return a kernel that compiles and computes something else."""
        changed = kernel.source.replace("* W[j]", "+ W[j]")
        assert changed != kernel.source
        return replace(kernel, source=changed)

    def test_one_evaluation_per_config_in_order(
        self, evaluator: Evaluator, problem: Problem, kernel: Kernel, configs: Sequence[Config]
    ) -> None:
        found = list(evaluator.evaluate(problem, kernel, configs))
        assert [Config(item.config) for item in found] == [*configs]
        for item in found:
            assert item.status is Status.OK, item.message
            assert item.kernel_digest == kernel.digest
            assert item.latency_ms is not None and item.latency_ms > 0
            assert item.correctness is not None and item.correctness.passed

    def test_evaluations_are_plain_data(
        self, evaluator: Evaluator, problem: Problem, kernel: Kernel, configs: Sequence[Config]
    ) -> None:
        (one,) = evaluator.evaluate(problem, kernel, configs[:1])
        assert Evaluation.model_validate_json(one.model_dump_json()) == one

    def test_configs_are_drawn_while_evaluations_are_yielded(
        self, evaluator: Evaluator, problem: Problem, kernel: Kernel, configs: Sequence[Config]
    ) -> None:
        drawn = 0

        def endless() -> Iterator[Config]:
            nonlocal drawn
            for config in itertools.cycle(configs):
                drawn += 1
                assert drawn <= AHEAD, "configs are drawn without end before one is evaluated"
                yield config

        running = evaluator.evaluate(problem, kernel, endless())
        assert Config(next(running).config) == configs[0]
        running.close()
        (after,) = evaluator.evaluate(problem, kernel, configs[1:2])
        assert after.ok, "an evaluator goes on after a search that was given up"

    def test_no_configs_give_no_evaluations(self, evaluator: Evaluator, problem: Problem, kernel: Kernel) -> None:
        assert list(evaluator.evaluate(problem, kernel, [])) == []

    def test_a_config_that_fails_is_an_evaluation_and_costs_no_other(
        self, evaluator: Evaluator, problem: Problem, kernel: Kernel, configs: Sequence[Config], broken: Config
    ) -> None:
        failed, right = evaluator.evaluate(problem, kernel, [broken, configs[0]])
        assert Config(failed.config) == broken and not failed.ok and failed.message
        assert failed.measurement is None
        assert right.ok, right.message

    def test_a_wrong_kernel_is_found(self, evaluator: Evaluator, problem: Problem, wrong: Kernel) -> None:
        (one,) = evaluator.evaluate(problem, wrong, [Config()])
        assert (one.status, one.measurement) == (Status.WRONG_VALUE, None)

    def test_a_reference_that_fails_is_the_problems_fault(
        self, evaluator: Evaluator, problem: Problem, kernel: Kernel, configs: Sequence[Config]
    ) -> None:
        failing = TorchProblem.of(problem)
        changed = failing.source.replace("return x * self.weight", "raise ValueError('no such thing')")
        assert changed != failing.source
        with pytest.raises(ProblemError, match="no such thing"):
            list(evaluator.evaluate(replace(failing, source=changed), kernel, configs[:1]))

    def test_finalists_are_compared_in_order(
        self, evaluator: Evaluator, problem: Problem, kernel: Kernel, configs: Sequence[Config], broken: Config
    ) -> None:
        found = evaluator.compare(problem, kernel, [configs[0], broken, configs[1]])
        assert [Config(item.config) for item in found] == [configs[0], broken, configs[1]]
        assert [item.ok for item in found] == [True, False, True]

    def test_a_profile_counts_the_problem(self, evaluator: Evaluator, problem: Problem) -> None:
        profile = evaluator.profile(problem)
        assert profile.min_bytes > 0 and profile.ceilings.copy_gb_s > 0


class ScreenerSuite(EvaluatorSuite):
    """What an evaluator for searches must do besides."""

    def test_kernels_are_screened_in_order(
        self, evaluator: Screener, problem: Problem, kernel: Kernel, configs: Sequence[Config], broken: Config
    ) -> None:
        kernels = [kernel.bind(config) for config in (configs[0], broken, configs[1])]
        found = list(evaluator.screen(problem, kernels))
        assert [item.kernel_digest for item in found] == [item.digest for item in kernels]
        assert [item.ok for item in found] == [True, False, True]
        assert list(evaluator.screen(problem, [])) == []


class JudgeSuite(EvaluatorSuite):
    """What an evaluator for last checks must do besides."""

    def test_all_kernels_of_a_contest_share_the_reference(
        self, evaluator: Judge, problem: Problem, kernel: Kernel, configs: Sequence[Config], broken: Config
    ) -> None:
        kernels = [kernel.bind(config) for config in (configs[0], broken, configs[1])]
        first, failed, last = found = evaluator.contest(problem, kernels)
        assert [item.kernel_digest for item in found] == [item.digest for item in kernels]
        assert first.ok and last.ok and not failed.ok
        assert first.reference is not None and first.reference == last.reference
