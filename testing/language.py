"""What every kernel language must do."""

from __future__ import annotations

import importlib

import pytest

from ..core import (
    Config,
    Evaluator,
    Language,
    Problem,
    PythonKernel,
    Status,
    Target,
    backends,
    find_language,
    known_languages,
    of_backend,
)
from ..core.language import backend
from ..evaluators.languages.base import LanguageSupport, language_module, support_of
from ..evaluators.local import LocalEvaluator
from ..evaluators.settings import AllowTorch, Settings
from ..prompts import sections
from .kept import kept
from .scale import scale_problem


class LanguageSuite:
    """What every kernel language must do. Override `language` and the kernels, which run on a CPU.

    The language is known to kernelwright: by its entry point, or by `core.language.register`.
    """

    @pytest.fixture
    def language(self) -> Language:
        """Return the language."""
        raise NotImplementedError("override the fixture `language` in your class")

    @pytest.fixture
    def problem(self) -> Problem:
        """Return what the kernels compute: by default the rows of a matrix times a vector (`SCALE_PROBLEM`)."""
        return scale_problem()

    @pytest.fixture
    def right(self) -> str:
        """Return the source of a kernel that is right."""
        raise NotImplementedError("override the fixture `right` in your class")

    @pytest.fixture
    def idle(self) -> str:
        """Return the source of one that computes the same with torch's operators, and launches nothing."""
        raise NotImplementedError("override the fixture `idle` in your class")

    @pytest.fixture
    def broken(self) -> str:
        """Return the source of one that the compiler refuses."""
        raise NotImplementedError("override the fixture `broken` in your class")

    @pytest.fixture
    def evaluator(self, request: pytest.FixtureRequest) -> Evaluator:
        """Return what evaluates the kernels."""
        settings = Settings(checks=2, second_workload=False, allow_torch=AllowTorch.GLUE).quick()
        return kept(request, LocalEvaluator("cpu", settings))

    def test_it_is_known(self, language: Language) -> None:
        assert language in known_languages() and find_language(language.id) == language
        assert language.id.isidentifier() and language.dialects and language.modules
        for dialect in language.dialects:
            name = backend(language, dialect.target)
            assert name in backends() and of_backend(name) == (language, dialect.target)

    def test_evaluators_find_their_part(self, language: Language) -> None:
        assert isinstance(support_of(language), LanguageSupport)
        assert importlib.import_module(language_module(language)).SUPPORT is support_of(language)

    def test_its_guides_have_sections(self, language: Language) -> None:
        for dialect in language.dialects:
            assert all(text.startswith("## ") for text in sections(dialect.guide).values())
            assert sections(dialect.guide)

    def test_its_kernels_are_recognized(self, language: Language, right: str, idle: str, broken: str) -> None:
        for source in (right, idle, broken):
            kernel = PythonKernel.parse(source)
            assert kernel.language == language
            assert kernel.target in [dialect.target for dialect in language.dialects]

    def test_a_right_kernel_counts(self, evaluator: Evaluator, problem: Problem, right: str) -> None:
        (found,) = evaluator.evaluate(problem, PythonKernel.parse(right), [Config()])
        assert found.status is Status.OK, found.message

    def test_a_kernel_without_a_launch_is_rejected(self, evaluator: Evaluator, problem: Problem, idle: str) -> None:
        (found,) = evaluator.evaluate(problem, PythonKernel.parse(idle), [Config()])
        assert found.status is Status.REJECTED, found.message

    def test_what_the_compiler_refuses_does_not_compile(
        self, evaluator: Evaluator, problem: Problem, broken: str
    ) -> None:
        kernel = PythonKernel.parse(broken)
        (found,) = evaluator.evaluate(problem, kernel, [Config()])
        # An interpreter, which stands in for a GPU, refuses it when it runs.
        assert found.status is (Status.COMPILE_ERROR if kernel.target is Target.CPU else Status.RUNTIME_ERROR)
        assert found.message
