"""What every rewrite rule must do."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Mapping, Sequence

import pytest

from ..agent.applied_rules import formatted
from ..agent.rules import Machine, NotApplicableError, Rewritten, Rule
from ..core import BOTTLENECKS, Config, Evaluator, PythonKernel, Status, TorchProblem, backends
from ..corpus import find_kernel, find_problem, list_kernels
from ..evaluators.local import LocalEvaluator
from ..evaluators.settings import Settings
from .kept import kept
from .odd_sources import FORMS

WORK = ("products", "streams", "both")
NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


def attempted(rule: Rule, kernel: PythonKernel, machine: Machine) -> Rewritten | None:
    """Apply a rule; None if it says why it does not fit.

    Fails if it gives no reason, or if its result is not a kernel with the parameters that it names. Any
    exception of the rule other than NotApplicableError is raised.
    """
    rewritten = _outcome(rule, kernel, machine)
    return rewritten if isinstance(rewritten, Rewritten) else None


def fired(rule: Rule, kernel: PythonKernel, machine: Machine) -> Rewritten:
    """Apply a rule that fits, as `attempted`. Fails with the rule's reason where it does not."""
    rewritten = _outcome(rule, kernel, machine)
    if isinstance(rewritten, str):
        pytest.fail(f"{rule.name} does not fit: {rewritten}")
    return rewritten


def _outcome(rule: Rule, kernel: PythonKernel, machine: Machine) -> Rewritten | str:
    """Return what a rule makes of a kernel, or why it does not fit."""
    before = kernel.source
    try:
        rewritten = rule.apply(kernel, machine)
    except NotApplicableError as reason:
        why = str(reason)
        if not _is_line(why):
            pytest.fail(f"{rule.name} does not say in one line why it does not fit: {why!r}")
        return why
    made = rewritten.kernel
    assert kernel.source == before
    assert made.source != before, f"{rule.name} changes nothing"
    assert (made.language, made.target) == (kernel.language, kernel.target)
    compile(made.source, rule.name, "exec")
    assert _is_line(rewritten.summary), f"{rule.name} does not say what it did"
    for parameter in rewritten.parameters:
        assert made.config.get(parameter.name) in parameter.values, f"{parameter.name} is not a constant of the kernel"
    if rewritten.space is not None:
        default = Config({name: made.config[name] for name in rewritten.space.names})
        assert default in rewritten.space, "the constants of the kernel are not a member of the rule's space"
    return rewritten


def _is_line(text: str) -> bool:
    return bool(text.strip()) and "\n" not in text


class RuleSuite:
    """What every rule must do. Override `rule` and `fits`, and `does_not_fit`."""

    @pytest.fixture
    def rule(self) -> Rule:
        """Return the rule."""
        raise NotImplementedError("override the fixture `rule` in your class")

    @pytest.fixture
    def fits(self) -> Sequence[PythonKernel]:
        """Return kernels that it rewrites."""
        raise NotImplementedError("override the fixture `fits` in your class")

    @pytest.fixture
    def does_not_fit(self) -> Mapping[str, PythonKernel]:
        """Return kernels that it leaves alone, by the reason that it gives, a regular expression."""
        raise NotImplementedError("override the fixture `does_not_fit` in your class")

    @pytest.fixture
    def machine(self) -> Machine:
        """Return the target device."""
        return Machine(cores=4, multiprocessors=132)

    def test_it_says_what_it_is(self, rule: Rule) -> None:
        assert isinstance(rule, Rule)
        assert NAME.fullmatch(rule.name)
        assert rule.category in BOTTLENECKS
        assert rule.work in WORK
        assert _is_line(rule.why)

    def test_it_rewrites_what_fits_and_always_the_same_way(
        self, rule: Rule, fits: Sequence[PythonKernel], machine: Machine
    ) -> None:
        assert fits
        for kernel in fits:
            first, second = (fired(rule, kernel, machine) for _ in range(2))
            assert first == second

    def test_it_can_follow_itself(self, rule: Rule, fits: Sequence[PythonKernel], machine: Machine) -> None:
        for kernel in fits:
            rewritten = fired(rule, kernel, machine)
            attempted(rule, formatted(rewritten.kernel), machine)

    def test_it_says_why_it_does_not_fit(
        self, rule: Rule, does_not_fit: Mapping[str, PythonKernel], machine: Machine
    ) -> None:
        assert does_not_fit
        for reason, kernel in does_not_fit.items():
            with pytest.raises(NotApplicableError, match=reason):
                rule.apply(kernel, machine)
            assert attempted(rule, kernel, machine) is None

    def test_no_kernel_makes_it_fail(self, rule: Rule, machine: Machine) -> None:
        """Every shipped kernel, as it is and in a form that is legal and odd."""
        for file in itertools.chain.from_iterable(map(list_kernels, backends())):
            kernel = file.read()
            attempted(rule, kernel, machine)
            odd = FORMS["everything"](kernel.source, random.Random(file.problem))
            attempted(rule, PythonKernel.parse(odd), machine)


class CheckedRuleSuite(RuleSuite):
    """What a rule must do besides whose kernels run on a CPU: they compute what the reference computes.

    Triton's run in its interpreter. Override `cases` in place of `fits`.
    """

    @pytest.fixture
    def cases(self) -> Sequence[tuple[PythonKernel, TorchProblem]]:
        """Return kernels that it rewrites, each with its problem at a size that takes seconds; see `shipped_case`."""
        raise NotImplementedError("override the fixture `cases` in your class")

    @pytest.fixture
    def fits(self, cases: Sequence[tuple[PythonKernel, TorchProblem]]) -> Sequence[PythonKernel]:
        """Return the kernels of the cases."""
        return [kernel for kernel, _ in cases]

    @pytest.fixture
    def evaluator(self, request: pytest.FixtureRequest) -> Evaluator:
        """Return what checks kernels."""
        return kept(request, LocalEvaluator("cpu", Settings(checks=2, second_workload=False).quick()))

    def test_what_it_writes_computes_the_same(
        self,
        rule: Rule,
        cases: Sequence[tuple[PythonKernel, TorchProblem]],
        machine: Machine,
        evaluator: Evaluator,
    ) -> None:
        for kernel, problem in cases:
            rewritten = rule.apply(kernel, machine).kernel
            (found,) = evaluator.evaluate(problem, rewritten, [Config()])
            assert found.status is Status.OK, found.message


def shipped_case(reference: str, backend: str) -> tuple[PythonKernel, TorchProblem]:
    """Return a shipped kernel and its problem at small sizes: `shipped_case("1_23", "triton")`."""
    kernel = find_kernel(reference, backend).read()
    assert isinstance(kernel, PythonKernel)
    return kernel, TorchProblem.of(find_problem(reference).read().at("tiny"))
